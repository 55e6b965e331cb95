"""Writes a small knowledge graph that embeddings can learn: several generations of families, with names.

    python datasets/families.py --out data/families

Everything is made from the seed with Python's own generator, so the same seed gives the same bytes everywhere. The
files are in DGL-KE's raw_udd_hrt format: head TAB relation TAB tail, by name.
"""
from __future__ import annotations

import argparse
import random
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Dict, Iterable, List, Optional, Sequence, Set, Tuple

from dglke_frugal.errors import InputError
from dglke_frugal.files import replace_file

WOMEN = """Ada Agnes Aiko Alba Amina Anja Asha Aurora Beatriz Bianca Carmen Cecilia Chloe Clara Dalia Dora Edith Elena
Emine Esther Eva Farah Fatima Flora Freya Greta Hana Hedda Ida Imani Ines Ingrid Irma Isolde Jana Judith Kaja Laila
Leonie Lidia Linnea Lucia Luise Mae Magda Mai Marta Maud Mina Mira Nadia Naomi Nela Nina Nora Olga Paloma Petra Rania
Rosa Ruth Sabine Sana Selma Signe Sofia Tamar Tessa Thea Uma Vera Wanda Xenia Yara Yuki Zelda Zora""".split()
MEN = """Aaron Adil Albert Amir Andrei Anton Arne Arthur Boris Bruno Caleb Carlos Cyrus Daniel Darius David Dimitri
Edgar
Eino Elias Emil Erik Felix Fjodor Franz Gabriel Georg Hakan Hassan Henrik Hugo Ivan Jakob Jamal Jan Jonas Josef Juan
Karim Kenji Klaus Konrad Lars Leo Linus Louis Luca Magnus Malik Marco Matteo Max Milan Nils Noah Omar Oskar Otto Pablo
Paul Pedro Rafael Ravi Robin Rolf Samuel Simon Sven Tariq Theo Tomas Udo Viktor Walter Yusuf Zeno""".split()
SURNAMES = """Abreu Acker Adler Albrecht Almeida Amari Andersen Aoki Arslan Asante Bakker Banerjee Barros Becker Bello
Berg Bianchi Blanc Bondar Braun Brandt Campos Castro Chen Conti Costa Cruz Dahl Danso Demir Diallo Dubois Duarte
Eklund Engel Eriksen Esposito Falk Farouk Ferrari Fischer Fontaine Forsberg Fuchs Garcia Gomez Greco Grieg Haas Haddad
Hansen Hartmann Hayashi Heller Herrera Holm Horvat Ibarra Ito Ivanov Jansen Jensen Kaplan Karlsson Kato Keita Keller
Khan Kim Klein Kovac Kraus Kumar Lang Larsen Lehmann Leone Lind Lopez Lund Mancini Marino Martins Mbeki Meier Mensah
Molina Moreau Mori Nakamura Navarro Nguyen Novak Okafor Olsen Ortega Osei Park Patel Pereira Petit Popov Quist Rahman
Ramos Reyes Ricci Rojas Romano Rossi Roth Sahin Santos Sato Schulz Seidel Silva Singh Solberg Sorensen Steiner Suzuki
Tanaka Torres Traore Vidal Vogel Wagner Weber Winter Wolff Yamada Yilmaz Zeller Zimmer""".split()

INVERSE = {"parent_of": "child_of", "grandparent_of": "grandchild_of", "aunt_or_uncle_of": "niece_or_nephew_of",
           "sibling_of": "sibling_of", "spouse_of": "spouse_of", "cousin_of": "cousin_of"}
DERIVED = ("grandparent_of", "aunt_or_uncle_of", "sibling_of", "cousin_of")  # follow from the parents alone

Fact = Tuple[int, str, int]


@dataclass
class Person:
    name: str
    surname: str
    woman: bool
    parents: Tuple[int, ...] = ()
    spouse: Optional[int] = None
    children: List[int] = field(default_factory=list)


class Population:
    """People of several generations; a person is an index into `people`."""

    def __init__(self, rng: random.Random):
        self.rng = rng
        self.people: List[Person] = []
        self._taken: Set[str] = set()

    def pick(self, values: Sequence):
        return values[int(self.rng.random() * len(values))]

    def add(self, surname: str, woman: bool, parents: Tuple[int, ...] = ()) -> int:
        given = WOMEN if woman else MEN
        name = f"{self.pick(given)} {surname}"
        while name in self._taken:  # a second given name tells namesakes apart
            name = f"{self.pick(given)} {self.pick(given)} {surname}"
        self._taken.add(name)
        self.people.append(Person(name, surname, woman, parents))
        return len(self.people) - 1

    def marry(self, generation: Iterable[int]) -> List[Tuple[int, int]]:
        """Couples of a generation; nobody marries a sibling or a cousin, and some stay single."""
        women, men = [], []
        for person in generation:
            (women if self.people[person].woman else men).append(person)
        shuffle(self.rng, men)
        couples = []
        for woman in women:
            kin = self.ancestors(woman)
            man = next((man for man in men if not kin & self.ancestors(man)), None)
            if man is None or self.rng.random() < 0.08:
                continue
            men.remove(man)
            self.people[woman].spouse, self.people[man].spouse = man, woman
            couples.append((woman, man))
        return couples

    def ancestors(self, person: int) -> Set[int]:
        """Parents and grandparents."""
        parents = self.people[person].parents
        return {*parents, *(g for parent in parents for g in self.people[parent].parents)}

    def have_children(self, couples: Iterable[Tuple[int, int]]) -> List[int]:
        children = []
        for woman, man in couples:
            surname = self.people[self.pick((woman, man))].surname
            for _ in range(self.pick((1, 2, 2, 2, 3, 3, 4))):
                child = self.add(surname, self.rng.random() < 0.5, (woman, man))
                self.people[woman].children.append(child)
                self.people[man].children.append(child)
                children.append(child)
        return children


def shuffle(rng: random.Random, values: list) -> None:
    """Fisher and Yates, on random() alone: the one method whose values Python promises never to change."""
    for i in range(len(values) - 1, 0, -1):
        j = int(rng.random() * (i + 1))
        values[i], values[j] = values[j], values[i]


def populate(rng: random.Random, people: int, generations: int = 6) -> List[Person]:
    """At least `people` people: founders, and families over the generations that follow."""
    population = Population(rng)
    founders = max(8, people // (generations * 5 // 4), generations // 2)  # few families die out
    generation = [population.add(population.pick(SURNAMES), i % 2 == 0) for i in range(founders)]
    for number in range(generations - 1):
        generation = population.have_children(population.marry(generation))
        if number == generations - 2 and len(population.people) < people:
            return populate(rng, people, generations + 1)
    return population.people


def facts(people: List[Person]) -> List[Fact]:
    """Every relation once, in the direction named by a key of INVERSE; symmetric ones from the lower to the higher."""
    found: Dict[Fact, None] = {}  # a set that keeps its order
    for child, person in enumerate(people):
        siblings = [s for parent in person.parents[:1] for s in people[parent].children if s != child]
        uncles = {u: None for parent in person.parents for g in people[parent].parents for u in people[g].children
                  if u not in person.parents}
        for parent in person.parents:
            found[(parent, "parent_of", child)] = None
            for grandparent in people[parent].parents:
                found[(grandparent, "grandparent_of", child)] = None
        for uncle in uncles:
            found[(uncle, "aunt_or_uncle_of", child)] = None
        symmetric = [("sibling_of", sibling) for sibling in siblings]
        symmetric += [("cousin_of", cousin) for uncle in uncles for cousin in people[uncle].children]
        if person.spouse is not None:
            symmetric.append(("spouse_of", person.spouse))
        for relation, other in symmetric:
            if child < other:
                found[(child, relation, other)] = None
    return list(found)


def split(rng: random.Random, every: List[Fact], share: float = 0.06) -> Dict[str, List[Fact]]:
    """Train, valid and test. What is held out can be inferred: either its inverse stays in train, or it follows from
    parents, whose links all stay in train in at least one direction."""
    splits: Dict[str, List[Fact]] = {"train": [], "valid": [], "test": []}
    for head, relation, tail in every:
        both = [(head, relation, tail), (tail, INVERSE[relation], head)]
        held_out = 0
        if rng.random() < share:
            held_out = 2 if relation in DERIVED and rng.random() < 0.5 else 1
            if rng.random() < 0.5:
                both.reverse()
        place = "valid" if rng.random() < 0.4 else "test"
        splits[place] += both[:held_out]
        splits["train"] += both[held_out:]
    for triples in splits.values():
        shuffle(rng, triples)
    return splits


def generate(seed: int = 0, people: int = 6000) -> Dict[str, List[Tuple[str, str, str]]]:
    """Triples of names for "train", "valid" and "test"."""
    rng = random.Random(seed)
    persons = populate(rng, people)
    splits = split(rng, facts(persons))
    used = {person for head, _, tail in splits["train"] for person in (head, tail)}
    kept = {place: [(h, r, t) for h, r, t in triples if h in used and t in used] for place, triples in splits.items()}
    return {place: [(persons[h].name, r, persons[t].name) for h, r, t in triples] for place, triples in kept.items()}


def write(folder: Path, splits: Dict[str, List[Tuple[str, str, str]]]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for place, triples in splits.items():
        with replace_file(folder / f"{place}.txt", "w") as file:
            file.writelines(f"{h}\t{r}\t{t}\n" for h, r, t in triples)


def main(arguments: Optional[Sequence[str]] = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("data/families"), help="folder to write to (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="another seed, other families (%(default)s)")
    parser.add_argument("--people", type=int, default=6000, help="how many people at least (%(default)s)")
    options = parser.parse_args(arguments)
    if not 100 <= options.people <= 30000:
        raise SystemExit("--people must lie between 100 and 30000: the name lists are not made for more")
    splits = generate(options.seed, options.people)
    try:
        write(options.out, splits)
    except (InputError, OSError) as error:
        raise SystemExit(str(error)) from None
    counts: Dict[str, int] = defaultdict(int)
    for triples in splits.values():
        for _, relation, _ in triples:
            counts[relation] += 1
    people = {name for h, _, t in splits["train"] for name in (h, t)}
    print(f"{options.out}: {len(people)} people, " + ", ".join(f"{len(t)} {place}" for place, t in splits.items()))
    for relation, count in sorted(counts.items()):
        print(f"  {count:6} {relation}")


if __name__ == "__main__":
    main()
