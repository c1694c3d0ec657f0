#pragma once

#include <map>
#include <string>

#include "policy/curve.h"

namespace barge {

/// What a machine can do, as `barge probe` measured it. Rates are per second.
struct Profile {
  static constexpr int kVersion = 2;  // raise it when profiles mean something else

  std::string machine;      // processor, threads, directory: what the numbers hold for
  bool unified = true;      // device memory is host memory
  double device_bytes = 0;  // that may be used
  double host_bytes = 0;
  double disk_bytes = 0;              // free in the directory
  double link_down = 0, link_up = 0;  // bytes, from and to pinned memory; 0 where unified
  double link_down_pageable = 0, link_up_pageable = 0;  // the same with ordinary memory
  double link_both = 0;                                 // bytes of both directions at once
  double overlap = 0;             // of a copy and a product side by side: the longer one's
                                  // time alone / that of both; 1: the other was hidden
  Curve disk_read, disk_write;    // bytes, by the bytes of a request, in a deep queue
  double host_copy = 0;           // bytes read and written once each
  std::map<int, Curve> products;  // operations (one multiply-add is two) by rows, for each width of
                                  // weights in bits; they come from memory and are decoded
  int activation_bits = 16;       // 8: inputs of 4- and 8-bit weights are rounded to 8 bits, and
                                  // any number of rows is multiplied as it is
  std::map<int, Curve> narrow_products;  // likewise, of kNarrow inputs; empty: not known apart
  /// A decoding sequence's attention takes bytes of KV / bytes + operations / ops seconds.
  struct Attention {
    double bytes = 0, ops = 0;
  };
  std::map<int, Attention> decode_attention;  // for each width of the KV cache in bits
  /// The same of the host's processor, beside copies over the link; empty: not known.
  std::map<int, Attention> host_attention;
  double prefill_attention = 0;  // operations (4 per head, key and dimension)
  double elementwise = 0;        // numbers through an activation function
  double draw = 0;               // logits of tokens that are drawn
  double call_seconds = 0;       // of an operation on next to nothing

  static constexpr double kNarrow = 512, kWide = 2048;
  /// Operations a second, between narrow and wide products by the inputs.
  double product_rate(int bits, double rows, double inputs) const;
  /// Those of the next greater width that was measured, else of the widest.
  const Curve& products_of(int bits) const;
  const Attention& attention_of(int bits) const;
  /// Null where that isn't known, as on a unified machine.
  const Attention* host_attention_of(int bits) const;
};

std::string profile_to_json(const Profile& profile);
/// Throws FormatError, naming `source` and the key: for other versions, too.
Profile profile_from_json(const std::string& text, const std::string& source);

}  // namespace barge
