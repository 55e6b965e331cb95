// One knowledge-graph embedding model on rows of floats: what differs between models, and nothing else.
//
// A model scores a positive (head, relation, tail), and turns the side that is not corrupted into a query for the
// similarity that all its negatives share (similarity.h). Its gradients are closed forms. Rows are float32; a row
// pointer may point into a table, so nothing is read beyond a row's end.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "models/similarity/similarity.h"

namespace frugal {

// How corrupted tails are scored. It makes a difference for RESCAL and TransR alone.
enum class ScoreRule {
  kTextbook,  // as the positive: every triple has one score
  kDglke,     // by another formula than the positive, as DGL-KE does (rescal_dglke.cpp, transr.cpp)
};

struct ModelSpec {
  std::string name;               // DGL-KE's names: TransE_l1, TransE_l2, TransE (= l2), DistMult, ...
  std::int64_t entity_dim = 0;    // floats of an entity row
  std::int64_t relation_dim = 0;  // floats of a relation row (RESCAL: d * d)
  float gamma = 0.0f;             // margin of the distance models
  float embedding_range = 0.0f;   // RotatE: the relation value that means the angle pi
  ScoreRule rule = ScoreRule::kTextbook;
};

// The rows of one positive.
struct Triple {
  const float* head;
  const float* relation;
  const float* tail;
  const float* projection = nullptr;  // TransR alone
};

// Where the gradients of one positive's rows go. They are overwritten.
struct TripleGradient {
  float* head;
  float* relation;  // relation_gradient_floats() floats
  float* tail;
  float* projection_factors = nullptr;  // TransR alone: entity_dim + relation_dim floats
};

class Model {
 public:
  Model(const ModelSpec& spec, Similarity similarity) : spec_(spec), similarity_(similarity) {}
  virtual ~Model() = default;

  const ModelSpec& spec() const { return spec_; }
  Similarity similarity() const { return similarity_; }

  // Whether entities are compared only after a projection by the relation (TransR).
  virtual bool projected() const { return false; }

  // Score of the positive, and its query (a candidate's floats) for negatives that replace the head or the tail. *saved
  // holds one number (a norm) that backward needs.
  virtual float forward(const Triple& x, bool corrupt_head, float* query, float* saved) const = 0;
  // forward in two halves, of models whose rows may be sharded by columns: raw is a sum over columns, so that those of
  // slices of the rows add up to that of the rows; finish makes the score of the whole sum, and the saved. A slice of a
  // row with two halves is the same columns of both.
  virtual float raw(const Triple&, bool, float*) const { throw std::logic_error(spec_.name + " does not split"); }
  virtual float finish(float, float*) const { throw std::logic_error(spec_.name + " does not split"); }
  // Gradients, given d loss / d score of the positive and d loss / d query, which may lie in out.head unless the model
  // is projected.
  virtual void backward(const Triple& x, bool corrupt_head, float saved, float score_gradient,
                        const float* query_gradient, const TripleGradient& out) const = 0;

  // Backward stores this for an edge's relation: the gradient itself, or, where that is large and of low rank, its
  // factors, from which expand makes elements [first, first + count) of the gradient.
  virtual std::int64_t relation_gradient_floats() const { return spec_.relation_dim; }
  virtual void expand(const float* stored, std::int64_t first, std::int64_t count, float* gradient) const {
    std::memcpy(gradient, stored + first, count * sizeof(float));
  }

 protected:
  const ModelSpec spec_;

 private:
  const Similarity similarity_;
};

// Throws std::invalid_argument, saying what is wrong, if there is no such model or its dimensions do not fit it.
std::unique_ptr<Model> make_model(const ModelSpec& spec);

// Names and aliases of the models that devices have kernels for (row_models.h).
std::vector<std::string> row_model_names();

}  // namespace frugal
