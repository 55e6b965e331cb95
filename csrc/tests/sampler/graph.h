// A random graph for the sampler's tests, and a batch as a value that can be compared.
#pragma once

#include <cstdint>
#include <random>
#include <tuple>
#include <vector>

#include "sampler/sampler.h"

namespace frugal {

template <typename Id = std::int32_t>
struct Graph {
  std::vector<Id> head, relation, tail;
  std::vector<float> weight;

  Graph(std::int64_t edges, std::int64_t entities, std::int64_t relations) {
    std::mt19937_64 random(17);
    for (std::int64_t i = 0; i < edges; ++i) {
      head.push_back(static_cast<Id>(random() % entities));
      relation.push_back(static_cast<Id>(random() % relations));
      tail.push_back(static_cast<Id>(random() % entities));
      weight.push_back(static_cast<float>(i));  // so that a batch tells which edges it holds
    }
  }

  EdgeList edges() const {
    const auto view = [](const std::vector<Id>& ids) {
      return IdArray(ids.data(), static_cast<std::int64_t>(ids.size()));
    };
    return {view(head), view(relation), view(tail), weight.data()};
  }
};

inline auto content(const Batch& b) {
  return std::tuple(b.step, b.corrupt_head, b.chunk_size, b.negatives_per_chunk, b.head, b.relation, b.tail, b.negative,
                    b.weight, b.entities, b.head_slot, b.tail_slot, b.negative_slot, b.relations, b.relation_slot,
                    b.positive_offset, b.positive_occurrence, b.negative_offset, b.negative_occurrence,
                    b.relation_offset, b.relation_occurrence);
}

inline Batch sample(const Sampler& sampler, std::int64_t step) {
  Batch batch;
  auto scratch = sampler.scratch();
  sampler.sample(step, batch, scratch);
  return batch;
}

}  // namespace frugal
