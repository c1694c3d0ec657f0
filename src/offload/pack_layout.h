#pragma once

#include <cstdint>
#include <vector>

#include "offload/pack.h"

namespace barge {

/// How many rows of a tensor a panel has (the last one may have fewer).
///   kMatrix  about a quarter of the matrix and at most kMaxPanelBytes, so that homes can be met
///            finely in small models too; fewer and larger ones where padding to sectors would
///            cost more than a few percent of the reads. A multiple of 64 rows (product tiles) and
///            of the group for axis kOutput, where 4 MiB allow it.
///   kTable   as few sectors as keep padding small, at most 64 KiB; a multiple of 16 rows if
///            possible, since tied tables are multiplied as well.
///   kVector  the one row.
/// Throws FormatError for sizes that can't be stored.
std::int64_t panel_rows(PackTensor::Kind kind, std::int64_t rows, std::int64_t cols,
                        const WeightFormat& format);

/// The panels of a tensor cut every `rows_per_panel`: first_row and layout set, file, offset and
/// checksum not. Throws FormatError for sizes out of bounds, among them panels over 4 MiB.
std::vector<PackPanel> cut_panels(const PackTensor& tensor, std::int64_t rows_per_panel);

}  // namespace barge
