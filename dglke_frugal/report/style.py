"""How the page of a report looks."""

STYLE = """
:root { color-scheme: light; --ink: #1c1f23; --faint: #68707a; --line: #dde1e6; --paper: #fff; --sheet: #f5f6f8; }
body { margin: 0; background: var(--sheet); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 1220px; margin: 0 auto; padding: 24px 20px 60px; }
h1 { font-size: 25px; margin: 0 0 2px; } h2 { font-size: 18px; margin: 36px 0 10px; }
h3 { font-size: 15px; margin: 0; }
p { margin: 4px 0 10px; max-width: 80ch; } .note { color: var(--faint); font-size: 13px; margin: 0 0 6px; }
.grid2 { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 460px), 1fr)); gap: 16px; }
figure { margin: 0; background: var(--paper); border: 1px solid var(--line); border-radius: 8px;
  padding: 14px 16px; min-width: 0; }
figure > svg { display: block; width: 100%; height: auto; }
svg text { font: 12px system-ui, sans-serif; fill: var(--faint); }
svg .grid { stroke: var(--line); } svg .axis, svg .tick { stroke: #9aa2ac; }
svg .frame { fill: none; stroke: var(--line); }
svg .curve { fill: none; stroke-width: 1.8; stroke-linejoin: round; }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: 2px 18px; margin: 6px 0 0; padding: 0;
  font-size: 13px; }
.legend li { overflow-wrap: anywhere; } .key { width: 26px; height: 8px; margin-right: 6px; }
.key.dot { width: 9px; height: 9px; }
.scroll { overflow-x: auto; background: var(--paper); border: 1px solid var(--line); border-radius: 8px; }
table { border-collapse: collapse; font-size: 14px; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: 6px 12px; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap; }
tr:last-child td { border-bottom: 0; } th { color: var(--faint); font-weight: 600; }
th:first-child, td:first-child { text-align: left; white-space: normal; overflow-wrap: anywhere; min-width: 12em; }
.narrow { font-size: 13px; } .narrow th, .narrow td { padding: 6px 8px; } .wide td:first-child { width: 36%; }
.bar { display: inline-block; height: 9px; border-radius: 2px; vertical-align: baseline; }
.wide .bars { text-align: left; width: 24%; min-width: 150px; } details { margin-top: 8px; }
summary { cursor: pointer; }
pre { background: var(--paper); border: 1px solid var(--line); border-radius: 8px; padding: 12px;
  overflow-x: auto; font-size: 13px; }
"""
