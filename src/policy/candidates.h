#pragma once

#include <cstddef>
#include <vector>

#include "policy/model_shape.h"
#include "policy/search.h"

namespace barge {

/// Sizes that are worth trying in a search, what the user fixed alone where something was fixed.

/// Positions of a sequence for which KV cache is planned.
int planned_positions(const Workload& job, int max_positions);

/// Rows of a sweep: the steady state's, and more for a job of one block, whose prompts can all go
/// first.
std::vector<int> sweep_sizes(const PolicyWishes& wishes, const Workload& job, int sequences);

/// Rings of weights, bytes, the best first. A disk is fast with some MiB under way, however small
/// the panels are. Over a link, weights queue up behind a micro-batch's KV cache, and within a
/// matrix those from the disk come after those from the host: a ring of a layer keeps both at work,
/// one of 32 panels bridges some of it. The last is 0: the least that works.
std::vector<std::size_t> rings(const ModelShape& shape, bool unified, const TierLimits& limits);

/// Positions of a page: small ones waste little host memory on tails, large ones make large
/// requests.
std::vector<int> page_sizes(const PolicyWishes& wishes);

/// Sequences of a micro-batch, of `count`: what the programme would have (a free `block`), that in
/// full tiles, and fractions and powers of two below, which the footprint may fit when that
/// doesn't.
std::vector<int> batch_sizes(const PolicyWishes& wishes, const Workload& job, double block,
                             int count);

}  // namespace barge
