#include "probe/probe.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>
#include <memory>

#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/session.h"
#include "core/bytes.h"

namespace barge {

void add_probe(CLI::App& app) {
  auto* command = app.add_subcommand("probe", "Measure this machine and keep the profile");
  const auto o = std::make_shared<Options>();
  command->add_option("--dtype", o->dtype, "type in which products are computed")
      ->check(CLI::IsMember({"auto", "float32", "bfloat16", "float16"}))
      ->capture_default_str();
  add_machine_flags(*command, *o);
  command->add_flag("--quick", o->quick, "10 seconds at most, less exact");
  command->add_flag("--json", o->json, "print the profile as it is kept");
  add_common_flags(*command);
  command->callback([command, o] {
    read_environment_and_config(*command);
    Machine machine(*o);
    const Profile p = machine.profile(o->quick, /*renew=*/true);
    if (o->json) {
      std::cout << profile_to_json(p) << '\n';
      return;
    }
    std::printf("%s\n", p.machine.c_str());
    const auto line = [](const char* what, double value, const char* unit) {
      std::printf("  %-22s %10.2f %s\n", what, value, unit);
    };
    line("disk read", p.disk_read / 1e9, "GB/s");
    line("disk write", p.disk_write / 1e9, "GB/s");
    line("memory copy", p.host_copy / 1e9, "GB/s");
    if (!p.unified) line("link down", p.link_down / 1e9, "GB/s");
    if (!p.unified) line("link up", p.link_up / 1e9, "GB/s");
    if (!p.unified) line("  both at once", p.link_both / 1e9, "GB/s");
    if (!p.unified) line("  down, not pinned", p.link_down_pageable / 1e9, "GB/s");
    if (!p.unified) line("  up, not pinned", p.link_up_pageable / 1e9, "GB/s");
    if (!p.unified) line("  beside a product", p.overlap, "of the longer one's time");
    for (const auto& point : p.matrix) {
      std::printf("  products, %5.0f rows   %10.2f Gop/s\n", point.rows, point.ops / 1e9);
    }
    line("dequantise", p.dequantise / 1e9, "G weights/s");
    line("attention", p.attention / 1e9, "Gop/s");
    line("host memory", p.host_bytes / (1 << 30), "GiB");
    line("free disk", p.disk_bytes / (1 << 30), "GiB");
  });
}

}  // namespace barge
