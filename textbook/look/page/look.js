// Where each head looks. `stacks` is a list of { name, queries, keys, layers }: words, and for each
// layer its weights, heads[h][i][j] from query i to key j. `here` is what the reader chose.
const data = JSON.parse(document.getElementById("data").textContent);
const here = { stack: 0, layer: 0, head: 0, query: 0, key: 0 };
const element = (id) => document.getElementById(id);
const times = (count, make) => Array.from({ length: count }, (_, i) => make(i));
const escaped = (word) => word.replace(/[&<>"]/g, (sign) => `&#${sign.charCodeAt()};`);
const visible = (word) => ({ " ": "\u2423", "\n": "\u21b5" })[word] ?? escaped(word);
const LETTER = 8.4;  // pixels, at most
const room = (words) => 16 + LETTER * Math.max(...words.map((word) => word.length));
const largest = (row) => row.indexOf(Math.max(...row));
const mark = (chosen) => chosen ? "chosen" : "";
const within = (value, count) => Math.min(Math.max(value, 0), count - 1);

function unpacked({ name, queries, keys, layers }) {
  const [T, n] = [queries.length, keys.length];
  return { name, queries, keys, layers: layers.map(({ heads, weights }) => {
    const bytes = Uint8Array.from(atob(weights), (sign) => sign.charCodeAt());
    const whole = new Uint16Array(bytes.buffer);
    return { heads: times(heads, (h) =>
      times(T, (i) => times(n, (j) => whole[(h * T + i) * n + j] / 65535))) };
  }) };
}

let stacks = (data.stacks ?? []).map(unpacked);
const stack = () => stacks[here.stack];
const weights = () => stack().layers[here.layer].heads[here.head];

// A choice: what it leaves open stays; a new query looks at the key with its largest weight.
function choose(change) {
  const before = { ...here };
  Object.assign(here, change);
  here.stack = within(here.stack, stacks.length);
  here.layer = within(here.layer, stack().layers.length);
  here.head = within(here.head, stack().layers[here.layer].heads.length);
  here.query = within(here.query, stack().queries.length);
  if (change.key === undefined) here.key = largest(weights()[here.query]);
  here.key = within(here.key, stack().keys.length);
  const changed = (...names) => names.some((name) => here[name] !== before[name]);
  if (changed("stack")) drawStacks();
  if (changed("stack", "layer", "head")) drawMaps();
  drawHead();
}

function drawStacks() {
  element("stacks").innerHTML = stacks.map(({ name }, i) =>
    `<button data-stack="${i}" aria-pressed="${i === here.stack}">${name}</button>`).join("");
  element("stacks").hidden = stacks.length === 1;
}

const cells = (rows, size, more) => rows.map((row, i) => row.map((weight, j) =>
  `<rect class="cell" x="${j * size}" y="${i * size}" width="${size}" height="${size}"
    fill-opacity="${weight.toFixed(3)}" ${more(i, j)}/>`).join("")).join("");

function drawMaps() {
  const { layers, queries, keys } = stack();
  const most = Math.max(...layers.map((layer) => layer.heads.length));
  const name = (text) => `<span class="name">${text}</span>`;
  element("maps").style.gridTemplateColumns = `auto repeat(${most}, minmax(20px, 64px))`;
  element("maps").innerHTML =
    name("head") + times(most, (head) => `<span>${head + 1}</span>`).join("") +
    layers.map((layer, l) => name(`layer ${l + 1}`) + layer.heads.map((rows, h) => `
      <svg viewBox="0 0 ${keys.length} ${queries.length}" preserveAspectRatio="none"
        shape-rendering="crispEdges" data-layer="${l}" data-head="${h}"
        class="${mark(l === here.layer && h === here.head)}">
        ${cells(rows, 1, () => "")}</svg>`).join("")).join("");
}

function drawHead() {
  const { queries, keys } = stack();
  drawLines(queries, keys, weights());
  drawMap(queries, keys, weights());
  element("said").innerHTML = `layer ${here.layer + 1}, head ${here.head + 1}:
    <b>${visible(queries[here.query])}</b> looks at <b>${visible(keys[here.key])}</b>
    with weight <b id="number">${weights()[here.query][here.key].toFixed(3)}</b>`;
  document.dispatchEvent(new Event("chosen"));
}

// Queries at the left, keys at the right; the chosen query's weights as numbers and bars.
function drawLines(queries, keys, rows) {
  const step = 24, top = 14, left = room(queries), right = left + 140;
  const y = (i) => top + step * i;
  const line = (i, j, kind) => `<path class="line ${kind}" stroke-width="${1 + 4 * rows[i][j]}"
    stroke-opacity="${rows[i][j].toFixed(3)}"
    d="M${left} ${y(i)}C${left + 60} ${y(i)} ${right - 60} ${y(j)} ${right} ${y(j)}"/>`;
  const all = (i, kind) => keys.map((_, j) => rows[i][j] > 0.01 ? line(i, j, kind) : "").join("");
  const height = top + step * Math.max(queries.length, keys.length);
  const numbers = right + room(keys);
  const lines = element("lines");
  lines.setAttribute("viewBox", `0 0 ${numbers + 90} ${height}`);
  lines.setAttribute("width", numbers + 90);
  lines.innerHTML = queries.map((_, i) => i === here.query ? "" : all(i, "of-others")).join("") +
    all(here.query, "") +
    queries.map((word, i) => `<text class="ends ${mark(i === here.query)}" x="${left - 6}"
      y="${y(i)}" data-query="${i}">${visible(word)}</text>`).join("") +
    keys.map((word, j) => `<text class="${mark(j === here.key)}" x="${right + 6}"
      y="${y(j)}" data-key="${j}">${visible(word)}</text>
      <text class="number" x="${numbers}" y="${y(j)}">${rows[here.query][j].toFixed(2)}</text>
      <rect class="bar" x="${numbers + 28}" y="${y(j) - 5}" height="10"
        width="${60 * rows[here.query][j]}"/>`).join("");
}

function drawMap(queries, keys, rows) {
  const size = Math.max(12, Math.min(30, 330 / keys.length));
  const inARow = keys.reduce((sum, word) => sum + LETTER * word.length + 6, 0);
  const upright = inARow > size * keys.length;
  const [left, top] = [room(queries), upright ? room(keys) : 24];
  const [width, height] = [size * keys.length, size * queries.length];
  const map = element("map");
  map.setAttribute("viewBox", `0 0 ${left + width + 4} ${top + height + 4}`);
  map.setAttribute("width", left + width + 4);
  const middle = (place) => size * (place + 0.5);
  map.innerHTML =
    queries.map((word, i) => `<text class="ends ${mark(i === here.query)}" x="${left - 6}"
      y="${top + middle(i)}" data-query="${i}">${visible(word)}</text>`).join("") +
    keys.map((word, j) => `<text class="${mark(j === here.key)}" data-key="${j}"
      text-anchor="${upright ? "start" : "middle"}"
      transform="translate(${left + middle(j)} ${top - (upright ? 6 : 12)})
      rotate(${upright ? -90 : 0})">${visible(word)}</text>`).join("") +
    `<g transform="translate(${left} ${top})" shape-rendering="crispEdges">` +
    cells(rows, size, (i, j) => `data-query="${i}" data-key="${j}"`) +
    `<rect class="box" width="${width}" height="${height}" pointer-events="none"/>
    <rect class="pair" x="${here.key * size}" y="${here.query * size}" width="${size}"
      height="${size}"/></g>`;
}

// What was pointed at, as the numbers in its data attributes.
const chosen = (event) => {
  const found = event.target.closest("[data-stack], [data-layer], [data-query], [data-key]");
  return found && Object.fromEntries(Object.entries(found.dataset).map(([k, v]) => [k, Number(v)]));
};
const pointed = (event) => {
  const change = chosen(event) ?? {};
  if (Object.keys(change).some((name) => change[name] !== here[name])) choose(change);
};
for (const id of ["stacks", "maps", "head"]) element(id).addEventListener("click", pointed);
element("head").addEventListener("pointerover", pointed);

const arrows = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
function move(event, vertical, horizontal) {
  if (!arrows[event.key]) return;
  event.preventDefault();
  const [down, right] = arrows[event.key];
  const change = {};
  if (down) change[vertical] = here[vertical] + down;
  if (right) change[horizontal] = here[horizontal] + right;
  choose(change);
}
element("maps").addEventListener("keydown", (event) => move(event, "layer", "head"));
element("head").addEventListener("keydown", (event) => move(event, "query", "key"));

// In a frame: as high as what is in it, and in the colours of the page around.
function dress() {
  let color = "rgb(255, 255, 255)";
  for (let around = frameElement; around; around = around.parentElement) {
    const behind = parent.getComputedStyle(around).backgroundColor;
    if (!/, 0\)$/.test(behind)) { color = behind; break; }
  }
  const [red, green, blue] = color.match(/[\d.]+/g).map(Number);
  const root = document.documentElement.style;
  root.colorScheme = 2 * red + 5 * green + blue < 1000 ? "dark" : "light";
  root.background = color;
}
if (frameElement) {
  frameElement.nextElementSibling?.remove();  // the line that stands in where no frame may be
  new ResizeObserver(() => {
    frameElement.style.height = `${document.body.offsetHeight + 8}px`;
  }).observe(document.body);
  for (const page of [parent.document.documentElement, parent.document.body]) {
    new MutationObserver(dress).observe(page, { attributes: true });
  }
  matchMedia("(prefers-color-scheme: dark)").onchange = dress;
  document.documentElement.onpointerenter = dress;
  dress();
}

// At first, the head of the last stack whose queries look most at one key.
function start() {
  const sure = (rows) => rows.reduce((sum, row) => sum + Math.max(...row), 0);
  const heads = stacks.at(-1).layers.flatMap((layer, l) =>
    layer.heads.map((rows, h) => [l, h, sure(rows)]));
  const [layer, head] = heads.reduce((best, other) => other[2] > best[2] ? other : best);
  here.stack = -1;
  choose({ stack: stacks.length - 1, layer, head, query: 1 });
}
if (data.stacks) start();
