#pragma once

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <utility>

namespace barge {

/// Calls `check` once for each instruction set that the kernels were built for and that this
/// processor has.
template <typename Check>
void for_every_isa(const Check& check) {
  const std::int64_t supported = hwy::SupportedTargets();
  for (const std::int64_t isa : {HWY_AVX3, HWY_AVX2, HWY_SCALAR}) {
    if (isa != HWY_SCALAR && (supported & isa) == 0) continue;
    SCOPED_TRACE(hwy::TargetName(isa));
    hwy::SetSupportedTargetsForTest(isa);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    check();
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace barge
