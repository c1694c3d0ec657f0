"""results.txt and results.svg of what gpu_check did; part of it."""
from xml.sax.saxutils import escape


def write(runner):
    """Whether all went well: no step failed or was cut, and all bars were met."""
    runner.save()
    text = table(runner)
    (runner.out / "results.txt").write_text(text)
    (runner.out / "results.svg").write_text(plot(runner))
    print("\n" + text, end="")
    return (all(step.status in ("passed", "skipped") for step in runner.steps) and
            all(figure.met is not False for figure in runner.figures))


def verdict(figure):
    if figure.met is None:
        return ""
    return ("met" if figure.met else "MISSED") + (
        f" ({'<=' if figure.at_most else '>='} {figure.bar:g})")


def table(runner):
    lines = [f"GPU: {runner.facts.get('gpu', 'unknown')}; {runner.facts.get('processor', '')}", ""]
    lines += [f"{step.status:8}{step.seconds:7.1f} s  {step.name}"
              + (f": {step.detail[:200]}" if step.detail else "") for step in runner.steps]
    if runner.figures:
        lines += ["", f"{'':62}{'value':>10}{'limit':>10}  {'':9}{'ratio':>7}"]
    for f in runner.figures:
        limit = f"{f.limit:10.4g}" if f.limit else " " * 10
        ratio = f"{f.ratio:7.2f}" if f.limit else " " * 7
        lines.append(f"{f.name:62}{f.value:10.4g}{limit}  {f.unit:9}{ratio}  {verdict(f)}".rstrip())
    counts = {status: sum(step.status == status for step in runner.steps)
              for status in ("passed", "failed", "cut", "skipped")}
    bars = [f.met for f in runner.figures if f.met is not None]
    lines += ["", ", ".join(f"{n} {status}" for status, n in counts.items())
              + f"; {sum(bars)} of {len(bars)} bars met", ""]
    return "\n".join(lines)


ROW, LEFT, WIDTH = 22, 430, 420
MOST = 4  # ratios beyond are drawn as long as this


def plot(runner):
    """A bar for each ratio, and a mark where it should reach (or stay below)."""
    rows = [f for f in runner.figures if f.ratio is not None]
    height = ROW * (len(rows) + 2)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 90}" height="{height}" '
           'font-family="sans-serif" font-size="12">',
           f'<rect width="100%" height="100%" fill="white"/>',
           f'<text x="8" y="16">{escape(runner.facts.get("gpu", ""))}: achieved / limit</text>']
    for i, f in enumerate(rows):
        y = ROW * (i + 1) + 6
        color = {True: "#3a7d44", False: "#c0392b", None: "#8a8a8a"}[f.met]
        length = min(f.ratio, MOST) / MOST * WIDTH
        out += [f'<text x="{LEFT - 8}" y="{y + 12}" text-anchor="end">{escape(f.name)}</text>',
                f'<rect x="{LEFT}" y="{y}" width="{length:.1f}" height="{ROW - 6}" fill="{color}"/>',
                f'<text x="{LEFT + length + 4:.1f}" y="{y + 12}">{f.ratio:.2f}</text>']
        if f.bar is not None:
            x = LEFT + f.bar / MOST * WIDTH
            out.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{y - 2}" y2="{y + ROW - 4}" '
                       'stroke="black" stroke-width="2"/>')
    return "\n".join(out + ["</svg>", ""])
