"""The page around the report: one file, no scripts, no network; light, dark and on paper."""

from __future__ import annotations

_STYLE = """
:root { color-scheme: light dark; --page: #f5f6f8; --card: #fff; --ink: #1c2230; --soft: #5b6474;
  --line: #dfe3ea; --accent: #1a66c9; --other: #8b94a3; --today: #c2570c; --good: #0e6e3f;
  --good-back: #e5f5ec; --simple: #1a5dba; --simple-back: #e7f0fc; --more: #a85b00;
  --more-back: #fdf1e0; --gap: #e9ecf1; }
@media (prefers-color-scheme: dark) { :root { --page: #12151b; --card: #1b2029; --ink: #e7eaf0;
  --soft: #a3acbb; --line: #323a47; --accent: #6aa7f8; --other: #7d8797; --today: #f0924c;
  --good: #5fd39a; --good-back: #14301f; --simple: #7db3fa; --simple-back: #15263e;
  --more: #f5b45e; --more-back: #362610; --gap: #262d38; } }
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0; background: var(--page); color: var(--ink); overflow-wrap: break-word;
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, Arial, sans-serif; }
main { max-width: 58rem; margin: 0 auto; padding: 1.25rem 1rem 3rem; }
header { margin-bottom: .75rem; }
h1 { font-size: 1.15rem; margin: 0; font-weight: 600; }
h2 { font-size: 1.25rem; margin: 0 0 .5rem; line-height: 1.25; }
h3 { font-size: 1rem; margin: 1.5rem 0 .4rem; }
p { margin: .4rem 0 .8rem; max-width: 44rem; }
section { background: var(--card); border: 1px solid var(--line); border-radius: 12px;
  padding: 1.1rem 1.25rem; margin-top: 1rem; }
.small, .notes, header p { color: var(--soft); font-size: .875rem; }
header p { margin: .1rem 0 0; }
.verdict { border-radius: 12px; padding: 1.1rem 1.25rem; border: 1px solid;
  border-left-width: 8px; }
.verdict.good { border-color: var(--good); background: var(--good-back); }
.verdict.simple { border-color: var(--simple); background: var(--simple-back); }
.verdict.more { border-color: var(--more); background: var(--more-back); }
.verdict .advice { font-size: 1.7rem; line-height: 1.2; font-weight: 700; margin: 0; }
.verdict.good .advice { color: var(--good); }
.verdict.simple .advice { color: var(--simple); }
.verdict.more .advice { color: var(--more); }
.verdict .headline { font-size: 1.1rem; font-weight: 500; margin: .35rem 0; }
.verdict ul { margin: .5rem 0 0; padding-left: 1.2rem; }
.verdict li { margin: .2rem 0; }
.tiles { display: grid; grid-template-columns: repeat(3, 1fr); gap: .75rem; margin: .75rem 0 1rem; }
.tile { border: 1px solid var(--line); border-radius: 10px; padding: .6rem .8rem; display: flex;
  flex-direction: column; min-width: 0; }
.tile .big { font-size: 1.35rem; font-weight: 650; color: var(--accent); }
.chart { display: grid; grid-template-columns: minmax(6rem, 8.5rem) 1fr; column-gap: .75rem;
  align-items: center; margin: .75rem 0 1rem; }
.chart svg { display: block; width: 100%; overflow: visible; }
.chart .group { grid-column: 1 / -1; font-weight: 600; font-size: .9rem; padding-top: .6rem; }
.chart .label { font-size: .875rem; line-height: 1.15; color: var(--soft); }
.chart .label.ours { color: var(--accent); font-weight: 600; }
.chart .label.today { color: var(--today); font-weight: 600; }
.chart .grid { stroke: var(--line); } .chart .limit { stroke: var(--ink); stroke-dasharray: 3 3; }
.chart .bar { stroke-width: 3; stroke-linecap: round; }
.chart .bar.ours { stroke: var(--accent); } .chart .dot.ours { fill: var(--accent); }
.chart .bar.today { stroke: var(--today); } .chart .dot.today { fill: var(--today); }
.chart .bar.other { stroke: var(--other); } .chart .dot.other { fill: var(--other); }
.axis text { fill: var(--soft); font-size: 12px; }
.scroll { overflow-x: auto; margin: .5rem 0; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .3rem .9rem .3rem 0; border-bottom: 1px solid var(--line);
  vertical-align: top; }
th:first-child { text-align: left; font-weight: 400; }
thead th { color: var(--soft); font-weight: 400; font-size: .8rem; vertical-align: bottom; }
.words th, .words td { text-align: left; } td, .whole { white-space: nowrap; }
th:last-child, td:last-child { padding-right: .2rem; }
.marked th, .marked td { font-weight: 600; color: var(--accent); }
.error { color: var(--soft); font-weight: 400; font-size: .85em; }
.facts { display: grid; grid-template-columns: repeat(auto-fill, minmax(11.5rem, 1fr)); gap: .8rem;
  margin: .5rem 0; }
dt { color: var(--soft); font-size: .8rem; } dd { margin: 0; font-weight: 550; }
.name { overflow-wrap: anywhere; }
.panels { display: grid; grid-template-columns: 1fr 1fr; gap: 1rem; }
figure { margin: 0; min-width: 0; } figcaption { font-size: .875rem; font-weight: 600; }
.pixels { display: block; width: 100%; height: 15rem; image-rendering: pixelated;
  background: var(--gap); border-radius: 4px; }
.key { display: flex; gap: .6rem; align-items: center; font-size: .8rem; color: var(--soft);
  max-width: 20rem; margin: .5rem 0; }
.key .pixels { height: .7rem; flex: 1; min-width: 0; image-rendering: auto; }
.map { display: grid; grid-template-columns: minmax(0, max-content) minmax(0, 1fr); gap: .5rem;
  grid-template-rows: 100%; margin: .5rem 0 1rem;
  max-width: 32rem; align-items: stretch; }
.map .pixels { height: 100%; background: none; border: 1px solid var(--line); }
.labels { display: flex; flex-direction: column; font-size: .72rem;
  min-height: 0; text-align: right; }
.labels span { flex: 1 1 0; min-height: 0; display: flex; align-items: center;
  justify-content: flex-end; line-height: 1; }
.labels .name { white-space: nowrap; overflow: hidden; text-overflow: ellipsis; max-width: 9rem; }
.two { display: grid; grid-template-columns: 1fr 1fr; gap: 0 2rem; }
details { margin-top: 1rem; padding: .75rem 1.25rem; border: 1px solid var(--line);
  border-radius: 12px; background: var(--card); }
summary { cursor: pointer; font-weight: 600; }
pre { background: var(--gap); padding: .75rem; border-radius: 8px; white-space: pre-wrap;
  overflow-wrap: anywhere; font-size: .85rem; }
@media (max-width: 34rem) {
  main { padding: .75rem .6rem 2rem; } section, .verdict { padding: .9rem .9rem; }
  .tiles { grid-template-columns: 1fr; gap: .5rem; }
  .tile { display: grid; grid-template-columns: 1fr 1fr; align-items: baseline; }
  .tile .big, .tile .gain { text-align: right; }
  .tile .big { font-size: 1.15rem; }
  .two { grid-template-columns: 1fr; } .panels { gap: .5rem; }
  .chart { grid-template-columns: 6.4rem 1fr; column-gap: .4rem; }
  .chart .label { font-size: .8rem; }
  .facts { grid-template-columns: 1fr 1fr; } table { font-size: .82rem; }
  th, td { padding-right: .55rem; } .error { display: block; }
  .verdict .advice { font-size: 1.45rem; }
  .labels .name { max-width: 6.5rem; } .labels { font-size: .66rem; }
}
@media print {
  :root { color-scheme: light; --page: #fff; --card: #fff; --ink: #000; --soft: #444; --line: #ccc;
    --accent: #1a66c9; --other: #777; --today: #c2570c; --good: #0e6e3f; --good-back: #fff;
    --simple: #1a5dba; --simple-back: #fff; --more: #a85b00; --more-back: #fff; --gap: #eee; }
  body { font-size: 10.5pt; } main { max-width: none; padding: 0; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  section { border: 0; border-top: 1px solid var(--line); border-radius: 0; padding: .8rem 0; }
  h2, h3 { break-after: avoid; }
  tr, .chart, .panels, .map, .tiles, .verdict { break-inside: avoid; }
  .scroll { overflow: visible; } details::details-content { content-visibility: visible;
    display: block; height: auto; }
}
"""


def page(title: str, body: str) -> str:
    """A whole HTML document; both parts are HTML already."""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        # No script, no font, no picture from anywhere: even if a name should slip through.
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; img-src data:; style-src 'unsafe-inline'\">\n"
        f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n"
        f"<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )
