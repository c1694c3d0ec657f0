"""The rows of a comparison, kept as JSON lines, shown as Markdown; part of compare."""
import json
import os
import pathlib
import platform

COLUMNS = (("system", None), ("version", None), ("weights", None), ("lines × (in + out)", None),
           ("cap MiB", "cap_mib"), ("peak MiB", "peak_mib"), ("seconds", "seconds"),
           ("all tok/s", "total_tokens_per_s"), ("prefill", "prefill_tokens_per_s"),
           ("decode", "decode_tokens_per_s"), ("generated", "generated_tokens_per_s"),
           ("", "failure"))


class Rows:
    """A file of one JSON object a line. What is measured again replaces what was there."""

    def __init__(self, path):
        self.path = path
        self.rows = [json.loads(line) for line in path.read_text().splitlines()] \
            if path.exists() else []

    def forget(self, scenario, system):
        self.rows = [row for row in self.rows
                     if (row["scenario"], row["system"]) != (scenario, system)]

    def add(self, row):
        self.rows.append(row)
        part = self.path.with_suffix(".part")
        part.write_text("".join(json.dumps(r) + "\n" for r in self.rows))
        part.rename(self.path)

    def smallest_cap(self, scenario, system):
        """At which `system` had a result; None: there is none."""
        caps = [row["cap_mib"] for row in self.rows if row["cap_mib"] and not row["failure"]
                and (row["scenario"], row["system"]) == (scenario, system)]
        return min(caps, default=None)


def number(value):
    """Three digits that count, as a person would write them."""
    if value is None:
        return ""
    if isinstance(value, int) or value >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def cell(row, title, key):
    if key == "failure":
        return (row["failure"] or row.get("note") or "").replace("|", "\\|")
    if key:
        return number(row.get(key))
    if title == "lines × (in + out)":
        return f"{row['lines']} × ({row['prompt_len']} + {row['gen_len']})"
    return str(row.get(title, ""))


def line(cells):
    return "| " + " | ".join(cells) + " |"


def markdown(rows):
    """A table for each scenario, best first, those without a result last."""
    out = []
    for scenario in dict.fromkeys(row["scenario"] for row in rows):
        mine = [row for row in rows if row["scenario"] == scenario]
        mine.sort(key=lambda r: (bool(r["failure"]), -(r.get("total_tokens_per_s") or 0),
                                 r["system"], r["cap_mib"] or 0))
        times = sorted(row["at"] for row in mine)
        out += [f"### {scenario}", "", ", ".join(sorted({row["machine"] for row in mine})) +
                f"; {times[0]} to {times[-1]}; median of "
                f"{', '.join(map(str, sorted({row['repetitions'] for row in mine})))}", "",
                line([title for title, _ in COLUMNS]), line(["---"] * len(COLUMNS))]
        out += [line([cell(row, *column) for column in COLUMNS]) for row in mine]
        out.append("")
    return "\n".join(out)


def machine():
    """What a figure depends on, in words."""
    models = [text.split(":", 1)[1].strip()
              for text in pathlib.Path("/proc/cpuinfo").read_text().splitlines()
              if text.startswith("model name")]
    gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (f"{len(os.sched_getaffinity(0))} × {(models or [platform.machine()])[0]}, "
            f"{gib:.0f} GiB")
