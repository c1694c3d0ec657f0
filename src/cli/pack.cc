#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/session.h"
#include "core/bytes.h"
#include "core/errors.h"
#include "core/progress.h"
#include "pack/convert.h"
#include "pack/verify.h"

namespace barge {
namespace {

std::string bytes_text(double n) { return format_bytes(static_cast<std::size_t>(n)); }

void pack(const Options& o) {
  if (!o.output.empty()) {
    const auto checkpoint = open_checkpoint(o.model);
    Progress progress("packing", bytes_text);
    convert(*checkpoint, convert_options(o), o.output, [&](std::size_t done, std::size_t total) {
      progress.update(static_cast<double>(done), static_cast<double>(total));
    });
  } else if (!o.verify) {
    throw ConfigError("barge pack wants -o DIR (or --verify for a pack that is there)");
  }
  const std::string directory = o.output.empty() ? o.model : o.output.string();
  if (o.verify) {
    Progress progress("verifying", bytes_text);
    verify_pack(directory, [&](std::size_t done, std::size_t total) {
      progress.update(static_cast<double>(done), static_cast<double>(total));
    });
  }
  const Pack made(directory);
  std::size_t panels = 0;
  for (const PackTensor& tensor : made.tensors()) panels += tensor.panels.size();
  std::printf("%s: %zu tensors in %zu panels, %s%s\n", directory.c_str(), made.tensors().size(),
              panels, format_bytes(made.bytes()).c_str(),
              o.verify ? ", every checksum is right" : "");
}

}  // namespace

void add_pack(CLI::App& app) {
  auto* command = app.add_subcommand("pack", "Convert a model into a pack, or verify one");
  const auto o = std::make_shared<Options>();
  command->add_option("MODEL", o->model, "a model, or with --verify a pack")->required();
  command->add_option("-o,--output", o->output, "directory of the pack; must not exist");
  add_format_flags(*command, *o);
  command->option_defaults()->group("Pack");
  command->add_option("--threads", o->threads, "that encode; default: all processors")
      ->check(CLI::NonNegativeNumber);
  command->add_flag("--verify", o->verify, "check every checksum");
  add_common_flags(*command);
  command->callback([command, o] {
    read_environment_and_config(*command);
    pack(*o);
  });
}

}  // namespace barge
