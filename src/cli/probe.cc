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
  add_compute_flags(*command, *o);
  add_machine_flags(*command, *o);
  command->option_defaults()->group("General");
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
    const auto curve = [](const Curve& rates, const char* format, double unit) {
      for (const auto& [size, rate] : rates.points()) std::printf(format, size, rate / unit);
    };
    curve(p.disk_read, "  disk read, %9.0f B   %10.2f GB/s\n", 1e9);
    curve(p.disk_write, "  disk write, %8.0f B   %10.2f GB/s\n", 1e9);
    line("memory copy", p.host_copy / 1e9, "GB/s");
    if (!p.unified) line("link down", p.link_down / 1e9, "GB/s");
    if (!p.unified) line("link up", p.link_up / 1e9, "GB/s");
    if (!p.unified) line("  both at once", p.link_both / 1e9, "GB/s");
    if (!p.unified) line("  down, not pinned", p.link_down_pageable / 1e9, "GB/s");
    if (!p.unified) line("  up, not pinned", p.link_up_pageable / 1e9, "GB/s");
    if (!p.unified) line("  beside a product", p.overlap, "of the longer one's time");
    for (const auto& [bits, rates] : p.products) {
      std::printf("  products with %d-bit weights\n", bits);
      curve(rates, "    %5.0f rows           %10.2f Gop/s\n", 1e9);
    }
    for (const auto& [bits, rates] : p.narrow_products) {
      std::printf("  narrow products with %d-bit weights\n", bits);
      curve(rates, "    %5.0f rows           %10.2f Gop/s\n", 1e9);
    }
    const auto attention = [&](const auto& by_bits, const char* where) {
      for (const auto& [bits, rates] : by_bits) {
        std::printf("  decode attention over %d-bit KV%s\n", bits, where);
        line("  KV", rates.bytes / 1e9, "GB/s");
        line("  operations", rates.ops / 1e9, "Gop/s");
      }
    };
    attention(p.decode_attention, "");
    attention(p.host_attention, ", by the host's processor");
    line("prefill attention", p.prefill_attention / 1e9, "Gop/s");
    line("elementwise", p.elementwise / 1e9, "G numbers/s");
    line("drawing", p.draw / 1e9, "G logits/s");
    line("a call", p.call_seconds * 1e6, "microseconds");
    line("host memory", p.host_bytes / (1 << 30), "GiB");
    line("free disk", p.disk_bytes / (1 << 30), "GiB");
  });
}

}  // namespace barge
