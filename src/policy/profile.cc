#include "policy/profile.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/errors.h"

namespace barge {
namespace {

using Json = nlohmann::json;

template <typename T>
const T& next_wider(const std::map<int, T>& by_bits, int bits) {
  const auto it = by_bits.lower_bound(bits);
  return it == by_bits.end() ? by_bits.rbegin()->second : it->second;
}

Json to_json(const std::map<int, Profile::Attention>& by_bits) {
  Json json = Json::object();
  for (const auto& [bits, rates] : by_bits)
    json[std::to_string(bits)] = {{"bytes_per_s", rates.bytes}, {"ops_per_s", rates.ops}};
  return json;
}

Json to_json(const Curve& curve, const char* size, const char* rate) {
  Json points = Json::array();
  for (const Curve::Point& point : curve.points())
    points.push_back({{size, point.size}, {rate, point.rate}});
  return points;
}

// Reads a profile's parts; what is wrong is thrown with the key's name.
class Reader {
 public:
  Reader(const Json& json, const std::string& source) : json_(json), source_(source) {}

  FormatError refuse(const std::string& why) const {
    return FormatError(concat("cannot read a profile from ", source_, ": ", why,
                              "; run `barge probe` to make one"));
  }

  double positive(const Json& json, const std::string& key) const {
    return number(json, key, /*wanted=*/true);
  }
  double positive(const char* key) const { return positive(json_, key); }
  /// 0 where it's missing or `wanted` is false.
  double positive_if(bool wanted, const char* key) const { return number(json_, key, wanted); }

  Curve curve(const Json& points, const std::string& key, const char* size,
              const char* rate) const {
    std::vector<Curve::Point> read;
    if (!points.is_array() || points.empty()) throw refuse(concat("\"", key, "\" wants points"));
    for (const Json& point : points) {
      read.push_back({positive(point, size), positive(point, rate)});
      if (read.size() > 1 && !(read.back().size > read[read.size() - 2].size &&
                               read.back().rate >= read[read.size() - 2].rate))
        throw refuse(concat("\"", key, "\" wants ascending \"", size, "\" and no falling \"", rate,
                            "\", got ", read.back().size, " with ", read.back().rate));
    }
    return Curve(std::move(read));
  }

  /// {"4": {"bytes_per_s": ..., "ops_per_s": ...}, ...}
  std::map<int, Profile::Attention> attention(const char* key) const {
    std::map<int, Profile::Attention> read;
    by_bits(key, [&](int bits, const Json& rates) {
      read[bits] = {positive(rates, "bytes_per_s"), positive(rates, "ops_per_s")};
    });
    return read;
  }
  bool has(const char* key) const { return json_.contains(key) && !json_.at(key).empty(); }

  /// Calls `take(bits, value)` for {"4": value, ...}.
  template <typename Take>
  void by_bits(const char* key, const Take& take) const {
    const Json& values = json_.at(key);
    if (!values.is_object() || values.empty())
      throw refuse(concat("\"", key, "\" wants values for widths in bits"));
    for (const auto& [bits, value] : values.items()) {
      if (bits != "4" && bits != "8" && bits != "16" && bits != "32")
        throw refuse(concat("\"", key, "\" wants 4, 8, 16 or 32 bits, got \"", bits, "\""));
      take(std::stoi(bits), value);
    }
  }

 private:
  double number(const Json& json, const std::string& key, bool wanted) const {
    const Json* value = json.is_object() && json.contains(key) ? &json.at(key) : nullptr;
    if (value == nullptr && !wanted) return 0;
    if (value == nullptr || !value->is_number())
      throw refuse(concat("\"", key, "\" wants a positive number, got ",
                          value == nullptr ? "none" : value->dump()));
    const double x = value->get<double>();
    if (!std::isfinite(x) || x < 0 || (wanted && x == 0))
      throw refuse(concat("\"", key, "\" wants a positive number, got ", x));
    return x;
  }

  const Json& json_;
  const std::string& source_;
};

}  // namespace

const Curve& Profile::products_of(int bits) const { return next_wider(products, bits); }
double Profile::product_rate(int bits, double rows, double inputs) const {
  const double wide = products_of(bits).at(rows);
  if (narrow_products.empty() || inputs >= kWide) return wide;
  const double narrow = next_wider(narrow_products, bits).at(rows);
  const double share = std::clamp((inputs - kNarrow) / (kWide - kNarrow), 0.0, 1.0);
  return narrow + share * (wide - narrow);
}
const Profile::Attention& Profile::attention_of(int bits) const {
  return next_wider(decode_attention, bits);
}
const Profile::Attention* Profile::host_attention_of(int bits) const {
  return unified || host_attention.empty() ? nullptr : &next_wider(host_attention, bits);
}

std::string profile_to_json(const Profile& profile) {
  Json products = Json::object(), residuals = Json::object();
  for (const auto& [bits, curve] : profile.products) {
    products[std::to_string(bits)] = to_json(curve, "rows", "ops_per_s");
    residuals[concat("products_", bits)] = curve.residual();
  }
  Json narrow = Json::object();
  for (const auto& [bits, curve] : profile.narrow_products) {
    narrow[std::to_string(bits)] = to_json(curve, "rows", "ops_per_s");
    residuals[concat("narrow_products_", bits)] = curve.residual();
  }
  residuals["disk_read"] = profile.disk_read.residual();
  residuals["disk_write"] = profile.disk_write.residual();
  return Json{{"version", Profile::kVersion},
              {"machine", profile.machine},
              {"unified", profile.unified},
              {"device_bytes", profile.device_bytes},
              {"host_bytes", profile.host_bytes},
              {"disk_bytes", profile.disk_bytes},
              {"link_down_bytes_per_s", profile.link_down},
              {"link_up_bytes_per_s", profile.link_up},
              {"link_down_pageable_bytes_per_s", profile.link_down_pageable},
              {"link_up_pageable_bytes_per_s", profile.link_up_pageable},
              {"link_both_bytes_per_s", profile.link_both},
              {"copy_compute_overlap", profile.overlap},
              {"disk_read", to_json(profile.disk_read, "request_bytes", "bytes_per_s")},
              {"disk_write", to_json(profile.disk_write, "request_bytes", "bytes_per_s")},
              {"host_copy_bytes_per_s", profile.host_copy},
              {"activation_bits", profile.activation_bits},
              {"products", products},
              {"narrow_products", narrow},
              {"decode_attention", to_json(profile.decode_attention)},
              {"host_attention", to_json(profile.host_attention)},
              {"prefill_attention_ops_per_s", profile.prefill_attention},
              {"elementwise_numbers_per_s", profile.elementwise},
              {"draw_logits_per_s", profile.draw},
              {"call_seconds", profile.call_seconds},
              {"residuals", residuals}}
      .dump(2);
}

Profile profile_from_json(const std::string& text, const std::string& source) {
  Json json;
  const Reader read(json, source);
  try {
    json = Json::parse(text);
    if (!json.is_object()) throw read.refuse("wanted an object");
    if (const int version = json.value("version", 1); version != Profile::kVersion)
      throw read.refuse(concat("wanted version ", Profile::kVersion, ", got ", version));
    Profile p;
    json.at("machine").get_to(p.machine);
    json.at("unified").get_to(p.unified);
    const bool link = !p.unified;
    p.device_bytes = read.positive_if(link, "device_bytes");
    p.host_bytes = read.positive("host_bytes");
    p.disk_bytes = read.positive("disk_bytes");
    p.link_down = read.positive_if(link, "link_down_bytes_per_s");
    p.link_up = read.positive_if(link, "link_up_bytes_per_s");
    p.link_down_pageable = read.positive_if(false, "link_down_pageable_bytes_per_s");
    p.link_up_pageable = read.positive_if(false, "link_up_pageable_bytes_per_s");
    p.link_both = read.positive_if(false, "link_both_bytes_per_s");
    p.overlap = read.positive_if(false, "copy_compute_overlap");
    p.disk_read = read.curve(json.at("disk_read"), "disk_read", "request_bytes", "bytes_per_s");
    p.disk_write = read.curve(json.at("disk_write"), "disk_write", "request_bytes", "bytes_per_s");
    p.host_copy = read.positive("host_copy_bytes_per_s");
    p.activation_bits = json.value("activation_bits", 16);
    if (p.activation_bits != 8 && p.activation_bits != 16)
      throw read.refuse(concat("\"activation_bits\" wants 8 or 16, got ", p.activation_bits));
    read.by_bits("products", [&](int bits, const Json& points) {
      p.products[bits] = read.curve(points, concat("products.", bits), "rows", "ops_per_s");
    });
    if (read.has("narrow_products"))
      read.by_bits("narrow_products", [&](int bits, const Json& points) {
        p.narrow_products[bits] =
            read.curve(points, concat("narrow_products.", bits), "rows", "ops_per_s");
      });
    p.decode_attention = read.attention("decode_attention");
    if (read.has("host_attention")) p.host_attention = read.attention("host_attention");
    p.prefill_attention = read.positive("prefill_attention_ops_per_s");
    p.elementwise = read.positive("elementwise_numbers_per_s");
    p.draw = read.positive("draw_logits_per_s");
    p.call_seconds = read.positive("call_seconds");
    return p;
  } catch (const Json::exception& e) {
    throw read.refuse(e.what());
  }
}

}  // namespace barge
