// What /metrics says of the machine, put into numbers for the page. Pure functions of the scrapes.

const TIERS = [["device", "Device memory"], ["host", "CPU memory"], ["disk", "Disk"]];

/** What computing waits for, in the engine's words, and in ours. */
const WAITS = [["weights", "weights"], ["KV", "the KV cache"], ["look-up", "embeddings"],
  ["CPU attention", "CPU attention"]];

/** Bytes of each tier that may be used: [{name, title, capacity, used, parts: [[title, bytes]]}]. */
export function tiers(metrics) {
  const value = (name, labels) => metrics.value(`barge:${name}`, labels) ?? 0;
  return TIERS.map(([name, title]) => {
    const capacity = value("tier_capacity_bytes", { tier: name });
    const weights = value("memory_bytes", { tier: name, what: "weights" });
    const kv = value("memory_bytes", { tier: name, what: "kv" });
    const used = Math.max(value("tier_used_bytes", { tier: name }), weights + kv);
    const other = used - weights - kv;
    const rest = name === "disk" ? "Rest of the pack and room for KV" : "Buffers and room for KV";
    return { name, title, capacity, used, parts: [["Weights", weights], ["KV cache in use", kv], [rest, other]] };
  }).filter((tier) => tier.capacity > 0);
}

/** Traffic of a tier in the last minute: [{title, bytesPerSecond, busy: 0 to 1}]. */
export function traffic(minute, tier) {
  const directions = { disk: [["read", "Read"], ["write", "Written"]],
    device: [["down", "To the device"], ["up", "From it"]] }[tier] ?? [];
  return directions.flatMap(([direction, title]) => {
    const labels = { tier, direction };
    const bytesPerSecond = minute.rate("barge:transferred_bytes_total", labels);
    const busy = minute.rate("barge:transfer_seconds_total", labels);
    return bytesPerSecond === null ? [] : [{ title, bytesPerSecond, busy: Math.min(busy ?? 0, 1) }];
  });
}

/**
 * Shares of the last minute: [{title, share}], which sum up to 1: computing, what it waited for, and
 * the rest, in which there was nothing to compute. null: not known.
 */
export function waits(minute) {
  const computing = minute.rate("barge:compute_seconds_total");
  if (computing === null) return null;
  const found = [{ title: "Computing", share: computing }];
  for (const [what, title] of WAITS) {
    const share = minute.rate("barge:stall_seconds_total", { who: "compute", waits_for: what });
    if (share) found.push({ title: `Waiting for ${title}`, share });
  }
  // A wait counts when it ends: one that began before the minute may make more than a minute.
  const sum = found.reduce((total, { share }) => total + share, 0);
  if (sum > 1) for (const one of found) one.share /= sum;
  found.push({ title: "Nothing to do", share: Math.max(0, 1 - sum) });
  return found;
}

/** The last minute's sweeps: {count, actual, planned} in seconds each; null: there were none. */
export function sweeps(minute) {
  const count = minute.rise("barge:sweeps_total");
  if (!count) return null;
  const mean = (source) => minute.rise("barge:sweep_seconds_total", { source }) / count;
  return { count, actual: mean("actual"), planned: mean("predicted") };
}

/** Tokens a second of the last minute; `planned`: generated, as the plan has it for these sweeps. */
export function tokens(minute) {
  const generated = minute.rate("barge:generation_tokens_total");
  const planned = minute.rise("barge:sweep_seconds_total", { source: "predicted" });
  return { generated, prompt: minute.rate("barge:prompt_tokens_total"),
    planned: planned > 0 ? minute.rise("barge:generation_tokens_total") / planned : null };
}
