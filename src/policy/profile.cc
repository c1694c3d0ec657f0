#include "policy/profile.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/errors.h"

namespace barge {

using Json = nlohmann::json;

double Profile::matrix_ops(double rows) const {
  if (matrix.empty()) return 0;
  if (rows <= matrix.front().rows) return matrix.front().ops * rows / matrix.front().rows;
  for (std::size_t i = 1; i < matrix.size(); ++i) {
    const MatrixRate &a = matrix[i - 1], &b = matrix[i];
    if (rows <= b.rows) return a.ops + (b.ops - a.ops) * (rows - a.rows) / (b.rows - a.rows);
  }
  return matrix.back().ops;
}

std::string profile_to_json(const Profile& profile) {
  Json matrix = Json::array();
  for (const auto& point : profile.matrix)
    matrix.push_back({{"rows", point.rows}, {"ops_per_s", point.ops}});
  return Json{{"machine", profile.machine},
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
              {"disk_read_bytes_per_s", profile.disk_read},
              {"disk_write_bytes_per_s", profile.disk_write},
              {"host_copy_bytes_per_s", profile.host_copy},
              {"dequantise_weights_per_s", profile.dequantise},
              {"attention_ops_per_s", profile.attention},
              {"matrix", matrix}}
      .dump(2);
}

Profile profile_from_json(const std::string& text, const std::string& source) {
  const auto refuse = [&](const std::string& why) {
    return FormatError(concat("cannot read a profile from ", source, ": ", why,
                              "; run `barge probe` to make one"));
  };
  try {
    const Json json = Json::parse(text);
    Profile p;
    json.at("machine").get_to(p.machine);
    json.at("unified").get_to(p.unified);
    const auto positive = [&](const char* key, double& to, bool wanted) {
      to = json.value(key, 0.0);
      if (!std::isfinite(to) || to < 0 || (wanted && to == 0))
        throw refuse(concat("\"", key, "\" wants a positive number, got ", to));
    };
    positive("device_bytes", p.device_bytes, !p.unified);
    positive("host_bytes", p.host_bytes, true);
    positive("disk_bytes", p.disk_bytes, true);
    positive("link_down_bytes_per_s", p.link_down, !p.unified);
    positive("link_up_bytes_per_s", p.link_up, !p.unified);
    positive("link_down_pageable_bytes_per_s", p.link_down_pageable, false);
    positive("link_up_pageable_bytes_per_s", p.link_up_pageable, false);
    positive("link_both_bytes_per_s", p.link_both, false);
    positive("copy_compute_overlap", p.overlap, false);
    positive("disk_read_bytes_per_s", p.disk_read, true);
    positive("disk_write_bytes_per_s", p.disk_write, true);
    positive("host_copy_bytes_per_s", p.host_copy, true);
    positive("dequantise_weights_per_s", p.dequantise, true);
    positive("attention_ops_per_s", p.attention, true);
    for (const Json& point : json.at("matrix"))
      p.matrix.push_back({point.at("rows").get<double>(), point.at("ops_per_s").get<double>()});
    for (std::size_t i = 0; i < p.matrix.size(); ++i)
      if (!(p.matrix[i].ops > 0) || !(p.matrix[i].rows > (i == 0 ? 0 : p.matrix[i - 1].rows)))
        throw refuse("\"matrix\" wants ascending rows and positive rates");
    if (p.matrix.empty()) throw refuse("\"matrix\" is empty");
    return p;
  } catch (const Json::exception& e) {
    throw refuse(e.what());
  }
}

}  // namespace barge
