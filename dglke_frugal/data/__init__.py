"""Knowledge graphs from files: `load_graph` reads every layout DGL-KE reads into arrays of ids. Imports no torch."""
from .graph import KnowledgeGraph, Names, Triples
from .load import load_graph

__all__ = ["KnowledgeGraph", "Names", "Triples", "load_graph"]
