#include "view/run/html_report_parts.h"

namespace helix::view::html {

// s1 to s4 are series, t0 to t5 machine types (after Okabe and Ito, told apart without all
// colours), h0 to h4 the ramp of the heat maps.
namespace {

constexpr const char* kStyleSheet = R"css(
:root{--page:#f6f7f9;--card:#fff;--ink:#1b1f24;--soft:#626b77;--line:#e3e7ec;--shade:#8a94a3;
--s1:#2271c9;--s2:#d9730d;--s3:#7d56c1;--s4:#14866d;--limit:#c62f3b;
--t0:#2271c9;--t1:#e69f00;--t2:#009e73;--t3:#cc79a7;--t4:#56b4e9;--t5:#8c6bb1;
--h0:#f0f3f7;--h1:#c3daf3;--h2:#6caae4;--h3:#1f6cbd;--h4:#0a2f66;color-scheme:light}
:root[data-theme=dark]{--page:#0f1216;--card:#181c22;--ink:#e8ebef;--soft:#98a2af;--line:#2a3038;
--shade:#5c6673;--s1:#5aa7f7;--s2:#f2a154;--s3:#b396f0;--s4:#3fc3a2;--limit:#ff6b75;
--t0:#4c9cf0;--t1:#f0b429;--t2:#2cc197;--t3:#e39cc5;--t4:#8fd0f7;--t5:#b396f0;
--h0:#1e242c;--h1:#1d4573;--h2:#2b78c6;--h3:#6db5f8;--h4:#e2f1ff;color-scheme:dark}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);
font:14px/1.45 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",sans-serif}
header,main{max-width:1280px;margin:0 auto;padding:0 24px}
header{padding-top:28px}header>div{display:flex;justify-content:space-between;align-items:start}
h1{font-size:26px;line-height:1.2;margin:0;letter-spacing:-.01em;overflow-wrap:anywhere}
h2{font-size:15px;margin:0 0 6px}h3{font-size:14px;margin:18px 0 6px}
h3 small{font-weight:400;color:var(--soft);margin-left:6px}
.facts{display:flex;flex-wrap:wrap;gap:4px 24px;margin:10px 0 20px}
.facts div{display:flex;gap:6px}dt{color:var(--soft)}dd{margin:0;font-weight:500;overflow-wrap:anywhere}
.tiles{display:flex;flex-wrap:wrap;gap:12px}
.tile,.card{background:var(--card);border:1px solid var(--line);border-radius:10px}
.tile{padding:14px 16px 12px;flex:1 1 220px}.tile .name{color:var(--soft)}
.tile .value{font-size:30px;font-weight:600;line-height:1.25;letter-spacing:-.015em;
font-variant-numeric:tabular-nums}
.tile .value small{font-size:14px;font-weight:400;color:var(--soft);margin-left:5px;letter-spacing:0}
.tile .below{color:var(--soft);font-size:13px;overflow-wrap:anywhere}
.card{padding:16px 20px 14px;margin:14px 0}
.two{display:grid;grid-template-columns:1fr 1fr;gap:14px;margin:14px 0}.two .card{margin:0}
.bar{display:flex;flex-wrap:wrap;gap:6px 20px;align-items:center;margin:0 0 8px}
.legend{display:flex;flex-wrap:wrap;gap:4px 16px;color:var(--soft);font-size:13px}
.legend span{display:flex;align-items:center;gap:6px}
.legend i{width:12px;height:12px;border-radius:3px;display:inline-block}
.note,.none{color:var(--soft);font-size:13px;margin:8px 0 0}
svg.plot{display:block;width:100%;height:auto;overflow:visible}
svg text{font-size:12px;fill:var(--soft)}svg text.value{fill:var(--ink);font-weight:500}
svg text.limit{fill:var(--limit)}svg text.title{fill:var(--ink);font-size:13px}
.grid{stroke:var(--line)}.line{fill:none;stroke-width:1.8;stroke-linejoin:round}
.area{stroke:none;opacity:.16}.dot{stroke:var(--card);stroke-width:2}
line.limit{stroke:var(--limit);stroke-dasharray:5 4}
.outside{fill:var(--shade);opacity:.13}.cursor{stroke:var(--soft);stroke-dasharray:2 3}
.mark line{stroke:var(--limit);opacity:.6}.mark path{fill:var(--limit)}
.line.s1{stroke:var(--s1)}.line.s2{stroke:var(--s2)}.line.s3{stroke:var(--s3)}.line.s4{stroke:var(--s4)}
.area.s1,.dot.s1{fill:var(--s1)}.area.s2,.dot.s2{fill:var(--s2)}
.area.s3,.dot.s3{fill:var(--s3)}.area.s4,.dot.s4{fill:var(--s4)}
i.s1,i.decode{background:var(--s1)}i.s2,i.prompt{background:var(--s2)}i.s3{background:var(--s3)}
i.s4{background:var(--s4)}i.waiting{background:var(--shade)}
i.t0{background:var(--t0)}i.t1{background:var(--t1)}i.t2{background:var(--t2)}
i.t3{background:var(--t3)}i.t4{background:var(--t4)}i.t5{background:var(--t5)}
rect.t0{fill:var(--t0)}rect.t1{fill:var(--t1)}rect.t2{fill:var(--t2)}
rect.t3{fill:var(--t3)}rect.t4{fill:var(--t4)}rect.t5{fill:var(--t5)}
.machines{display:grid;grid-template-columns:190px 1.7fr 1fr;column-gap:4px;row-gap:6px}
.machines canvas{width:100%;display:block;cursor:crosshair}
.machines #strip,.machines #coverage,#strip-axis{margin-left:12px;width:calc(100% - 12px)}
.labels{display:block}.labels text{font-size:11.5px}
.corner,.head{color:var(--soft);font-size:12px;align-self:end}
.machines .corner{grid-column:3;grid-row:1;margin-left:12px}
.machines .head{grid-column:2;grid-row:1/3}
.machines #coverage{grid-column:3;grid-row:2;height:26px}
.machines .labels{grid-column:1;grid-row:3}.machines #heat{grid-column:2;grid-row:3}
.machines #strip{grid-column:3;grid-row:3}
#heat-axis{grid-column:2;grid-row:4}.machines #strip-axis{grid-column:3;grid-row:4}
.axis{position:relative;height:18px;color:var(--soft);font-size:12px}
.axis span{position:absolute;transform:translateX(-50%);white-space:nowrap}
.ramp{display:flex;align-items:center;gap:8px;color:var(--soft);font-size:13px}
.ramp i{width:110px;height:12px;border-radius:3px;
background:linear-gradient(90deg,var(--h0),var(--h1),var(--h2),var(--h3),var(--h4))}
.switch{margin-left:auto;display:flex}
button{font:inherit;color:var(--soft);background:var(--card);border:1px solid var(--line);
padding:3px 12px;cursor:pointer}
.switch button:first-child{border-radius:7px 0 0 7px}
.switch button:last-child{border-radius:0 7px 7px 0;border-left:0}
button.on{background:var(--s1);border-color:var(--s1);color:var(--card)}
#theme{border-radius:7px;font-size:16px;line-height:1.3}
.scroll{overflow-x:auto}table{border-collapse:collapse;width:100%;margin-top:8px}
th,td{padding:5px 10px;text-align:right;white-space:nowrap;border-top:1px solid var(--line);
font-variant-numeric:tabular-nums;font-weight:400}
thead th{border:0;color:var(--soft);font-size:13px}th:first-child{text-align:left;padding-left:0}
tr>:nth-child(2){text-align:left}td:nth-child(2){padding:2px 10px}.to{color:var(--soft)}
.spark{width:150px;height:22px;display:block;background:var(--h0);border-radius:3px}
.spark .area{opacity:.75}
.gauge{display:inline-block;width:70px;height:8px;border-radius:4px;background:var(--h0);
margin-right:8px;overflow:hidden}.gauge i{display:block;height:100%;background:var(--s1)}
rect.waiting{fill:var(--shade);opacity:.55}rect.prompt{fill:var(--s2)}rect.decode{fill:var(--s1)}
.gantt g.request{cursor:pointer;outline:none}.gantt .pick{fill:transparent}
.gantt g.request:hover .pick,.gantt g.request:focus .pick{fill:var(--shade);opacity:.12}
.gantt g.on .pick{fill:var(--shade);opacity:.2}.gantt g.on .name{fill:var(--ink);font-weight:600}
.cross{stroke:var(--limit);stroke-width:2}
.stages .move{stroke:var(--soft);stroke-width:1.5}
.stages .wait{stroke:var(--shade);stroke-width:1.5;stroke-dasharray:1.5 3}
.stages .token{stroke:var(--ink);opacity:.5}
.stages .inside{fill:#fff;font-size:11px;pointer-events:none}
:root[data-theme=dark] .stages .inside{fill:#0b0e12}
#tip{position:fixed;pointer-events:none;display:none;z-index:9;background:var(--card);
border:1px solid var(--line);border-radius:8px;padding:7px 11px;font-size:13px;max-width:360px;
box-shadow:0 4px 18px rgb(0 0 0/.16)}
#tip b{display:block;font-weight:600}#tip div{display:flex;gap:8px;align-items:center}
#tip i{width:10px;height:10px;border-radius:3px;flex:none}
#tip em{font-style:normal;margin-left:auto;padding-left:14px;font-variant-numeric:tabular-nums}
@media(max-width:900px){.card{overflow-x:auto}svg.plot[viewBox^="0 0 1200"]{min-width:800px}
.two{grid-template-columns:1fr}header,main{padding:0 12px}
.machines{grid-template-columns:190px 300px 300px}}
@media print{#theme,.switch{display:none}.card,.tile{break-inside:avoid}}
)css";

constexpr const char* kScript = R"js(
"use strict";
(() => {
const data = JSON.parse(document.getElementById("data").textContent);
const root = document.documentElement, tip = document.getElementById("tip");
const make = (tag, text) => { const e = document.createElement(tag); if (text) e.textContent = text; return e; };

function showTip(event, title, rows) {
  tip.replaceChildren(make("b", title));
  for (const [name, value, style] of rows) {
    const row = make("div");
    if (style) row.append(Object.assign(make("i"), {className: style}));
    row.append(make("span", name), make("em", value));
    tip.append(row);
  }
  tip.style.display = "block";
  const box = tip.getBoundingClientRect();
  const x = event.clientX + 16 + box.width > innerWidth ? event.clientX - 16 - box.width : event.clientX + 16;
  const y = Math.min(event.clientY + 14, innerHeight - box.height - 8);
  tip.style.left = Math.max(4, x) + "px";
  tip.style.top = Math.max(4, y) + "px";
}
const hideTip = () => { tip.style.display = "none"; };

for (const svg of document.querySelectorAll("svg[data-plot]")) {
  const plot = (data.plots || {})[svg.dataset.plot], cursor = svg.querySelector(".cursor");
  if (!plot || !plot.points.length) continue;
  svg.addEventListener("pointermove", event => {
    const box = svg.getBoundingClientRect();
    const x = (event.clientX - box.left) / box.width * plot.width;
    let best = plot.points[0];
    for (const p of plot.points) if (Math.abs(p[0] - x) < Math.abs(best[0] - x)) best = p;
    cursor.setAttribute("x1", best[0]);
    cursor.setAttribute("x2", best[0]);
    cursor.setAttribute("visibility", "visible");
    showTip(event, best[1], plot.series.map((s, i) => [s[0], best[2][i], s[1]]));
  });
  svg.addEventListener("pointerleave", () => { cursor.setAttribute("visibility", "hidden"); hideTip(); });
}

const nodes = data.nodes;
const share = (text, i) => parseInt(text.substr(2 * i, 2), 36) / 1000;
const percent = s => (s * 100).toFixed(s < 0.0995 ? 1 : 0) + " %";
let metric = "busy", ramp = [];

function readRamp() {
  const style = getComputedStyle(root);
  const stops = [0, 1, 2, 3, 4].map(i => {
    const hex = style.getPropertyValue("--h" + i).trim();
    return [1, 3, 5].map(k => parseInt(hex.substr(k, 2), 16));
  });
  ramp = Array.from({length: 101}, (_, i) => {
    const at = i / 25, k = Math.min(3, Math.floor(at)), f = at - k;
    return "rgb(" + stops[k].map((c, j) => Math.round(c + (stops[k + 1][j] - c) * f)).join(" ") + ")";
  });
}
const colour = s => ramp[Math.round(s * 100)];

function prepare(id, height) {
  const canvas = document.getElementById(id), scale = devicePixelRatio || 1;
  canvas.width = Math.max(1, Math.round(canvas.clientWidth * scale));
  canvas.height = Math.max(1, Math.round(height * scale));
  const pen = canvas.getContext("2d");
  pen.clearRect(0, 0, canvas.width, canvas.height);
  return [pen, canvas.width, canvas.height];
}

function paint() {
  if (!nodes) return;
  const n = nodes.rows.length, gap = nodes.row > 4 ? (devicePixelRatio || 1) : 0;
  const [heat, hw, hh] = prepare("heat", nodes.row * n);
  const [strip, sw, sh] = prepare("strip", nodes.row * n);
  const buckets = nodes.rows[0].busy.length / 2;
  nodes.rows.forEach((node, i) => {
    const top = Math.round(hh * i / n), height = Math.max(1, Math.round(hh * (i + 1) / n) - top - gap);
    for (let b = 0; b < buckets; ++b) {
      const x0 = Math.round(hw * Math.min(1, b * nodes.bucket / nodes.span));
      const x1 = Math.round(hw * Math.min(1, (b + 1) * nodes.bucket / nodes.span));
      heat.fillStyle = colour(share(node[metric], b));
      heat.fillRect(x0, top, x1 - x0, height);
    }
    strip.fillStyle = ramp[0];
    strip.fillRect(0, top, sw, height);
    for (let l = node.begin; l < node.end; ++l) {
      const x0 = Math.round(sw * l / nodes.layers), x1 = Math.round(sw * (l + 1) / nodes.layers);
      strip.fillStyle = colour(0.15 + 0.85 * share(node.flow, l - node.begin));
      strip.fillRect(x0, top, x1 - x0, height);
    }
  });
  const [cover, cw, ch] = prepare("coverage", 26);
  for (let l = 0; l < nodes.layers; ++l) {
    const x0 = Math.round(cw * l / nodes.layers), x1 = Math.round(cw * (l + 1) / nodes.layers);
    cover.fillStyle = colour(share(nodes.layer_busy, l));
    cover.fillRect(x0, 0, x1 - x0, ch);
  }
}

function axis(id, most, text) {
  const box = document.getElementById(id), raw = most / 5, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map(f => f * power).find(s => s >= raw * 0.999);
  for (let v = 0; v <= most * 1.0001; v += step) {
    const label = make("span", text(v));
    label.style.left = 100 * v / most + "%";
    box.append(label);
  }
}

function hoverCells(id, rows, show) {
  const canvas = document.getElementById(id);
  canvas.addEventListener("pointermove", event => {
    const box = canvas.getBoundingClientRect();
    const x = Math.min(0.999999, Math.max(0, (event.clientX - box.left) / box.width));
    const y = Math.min(0.999999, Math.max(0, (event.clientY - box.top) / box.height));
    show(event, x, Math.floor(y * rows));
  });
  canvas.addEventListener("pointerleave", hideTip);
}

if (nodes) {
  axis("heat-axis", nodes.span, v => nodes.span >= 7200 ? +(v / 3600).toPrecision(3) + " h" : +v.toPrecision(6) + " s");
  axis("strip-axis", nodes.layers, v => v === 0 ? "layer 0" : String(Math.round(v)));
  const n = nodes.rows.length;
  hoverCells("heat", n, (event, x, i) => {
    const node = nodes.rows[i], b = Math.min(node.busy.length / 2 - 1, Math.floor(x * nodes.span / nodes.bucket));
    const from = b * nodes.bucket, to = Math.min(nodes.span, from + nodes.bucket);
    const rows = [["computing then", percent(share(node.busy, b))]];
    if (node.facts.some(f => f[0].startsWith("KV"))) rows.push(["KV memory then", percent(share(node.kv, b))]);
    showTip(event, node.title + " at " + +from.toFixed(2) + " to " + +to.toFixed(2) + " s", rows.concat(node.facts));
  });
  hoverCells("strip", n, (event, x, i) => {
    const node = nodes.rows[i], l = Math.floor(x * nodes.layers), held = l >= node.begin && l < node.end;
    const here = held ? [["through layer " + l, (share(node.flow, l - node.begin) * nodes.most).toPrecision(3) + " tok/s"]]
                      : [["layer " + l, "not held"]];
    const range = node.end > node.begin ? ", layers " + node.begin + "-" + (node.end - 1) : ", no layers";
    showTip(event, node.title + range, here.concat(node.facts));
  });
  hoverCells("coverage", 1, (event, x) => {
    const l = Math.floor(x * nodes.layers);
    showTip(event, "layer " + l, [["machines", String(nodes.holders[l])], ["busy", percent(share(nodes.layer_busy, l))]]);
  });
  for (const button of document.querySelectorAll("[data-metric]")) {
    button.addEventListener("click", () => {
      metric = button.dataset.metric;
      for (const other of document.querySelectorAll("[data-metric]")) other.classList.toggle("on", other === button);
      paint();
    });
  }
}

for (const row of document.querySelectorAll("[data-request]")) {
  const pick = () => {
    for (const other of document.querySelectorAll("[data-request]")) other.classList.toggle("on", other === row);
    for (const svg of document.querySelectorAll("svg.stages")) {
      svg.style.display = svg.id === "stages-" + row.dataset.request ? "" : "none";
    }
  };
  row.addEventListener("click", pick);
  row.addEventListener("keydown", event => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); pick(); } });
}

function theme(name) {
  root.dataset.theme = name;
  readRamp();
  paint();
}
const system = matchMedia("(prefers-color-scheme: dark)");
system.addEventListener("change", () => theme(system.matches ? "dark" : "light"));
document.getElementById("theme").addEventListener("click", () => theme(root.dataset.theme === "dark" ? "light" : "dark"));
addEventListener("resize", paint);
theme(system.matches ? "dark" : "light");
})();
)js";

}  // namespace

const char* style_sheet() {
    return kStyleSheet;
}

const char* script() {
    return kScript;
}

}  // namespace helix::view::html
