#include "policy/operation_cost.h"

#include <cmath>

#include "core/row_tile.h"

namespace barge {
namespace {

// Small products are measured as they are.
double in_tiles(double rows) {
  return rows < kRowTile ? rows : std::ceil(rows / kRowTile) * kRowTile;
}

double attention_operations(double heads, double head_dim, double keys) {
  return 4 * heads * head_dim * keys;
}

double decode_seconds(const Profile::Attention& rates, double heads, double head_dim, double keys,
                      double record_bytes) {
  return record_bytes * keys / rates.bytes +
         attention_operations(heads, head_dim, keys) / rates.ops;
}

}  // namespace

double OperationCost::product(double rows, double outputs, double inputs, int weight_bits) const {
  const bool as_they_are = profile_.activation_bits == 8 && weight_bits <= 8;
  return product_of_full_tiles(as_they_are ? rows : in_tiles(rows), outputs, inputs, weight_bits);
}

double OperationCost::product_of_full_tiles(double rows, double outputs, double inputs,
                                            int weight_bits) const {
  if (rows <= 0) return 0;
  return 2 * rows * outputs * inputs / profile_.product_rate(weight_bits, rows, inputs);
}

double OperationCost::prefill_attention(double heads, double head_dim, double keys) const {
  return attention_operations(heads, head_dim, keys) / profile_.prefill_attention;
}

double OperationCost::decode_attention(double heads, double head_dim, double keys,
                                       double record_bytes, int kv_bits) const {
  return decode_seconds(profile_.attention_of(kv_bits), heads, head_dim, keys, record_bytes);
}

double OperationCost::host_attention(double heads, double head_dim, double keys,
                                     double record_bytes, int kv_bits) const {
  return decode_seconds(*profile_.host_attention_of(kv_bits), heads, head_dim, keys, record_bytes);
}

}  // namespace barge
