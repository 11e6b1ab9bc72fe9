// Looks for the words of ?q= in SECTIONS (sections.js): all must occur; headings count most.
document.addEventListener("DOMContentLoaded", () => {
  const query = (new URLSearchParams(location.search).get("q") ?? "").trim();
  const plain = (text) => text.toLowerCase().normalize("NFKD");
  const escaped = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  const words = plain(query).split(/\s+/).filter(Boolean);
  const phrase = plain(query).replace(/\s+/g, " ");
  const count = (text, word) => text.match(new RegExp(`(?<![\\p{L}\\p{N}])${escaped(word)}`, "gu"))?.length ?? 0;

  const found = [];
  for (const [page, title, address, text] of words.length ? SECTIONS : []) {
    const heading = plain(title), body = plain(text);
    const each = words.map((word) => 10 * count(heading, word) + Math.min(count(body, word), 5));
    if (each.includes(0)) continue;
    const whole = words.length > 1 ? 30 * count(heading, phrase) + 5 * count(body, phrase) : 0;
    found.push([each.reduce((sum, score) => sum + score, whole), page, title, address, text]);
  }
  found.sort((one, other) => other[0] - one[0]);

  const element = (name, text, parent) => {
    const made = document.createElement(name);
    made.textContent = text;
    parent.append(made);
    return made;
  };
  const results = document.querySelector("#search-results");
  const told = !query ? "Type what you look for into the box on the left." :
    `${found.length} sections with “${query}”`;
  element("p", told, results).setAttribute("role", "status");
  const list = element("ol", "", results);
  list.className = "found";
  for (const [, page, title, address, text] of found.slice(0, 50)) {
    const item = element("li", "", list);
    element("a", title, item).href = address;
    if (page !== title) element("span", ` ${page}`, item).className = "found-page";
    const body = plain(text), at = [phrase, ...words].map((part) => body.indexOf(part)).find((n) => n >= 0);
    if (at === undefined) continue;
    const start = at > 80 ? text.indexOf(" ", at - 80) + 1 : 0;
    const excerpt = element("p", start ? "… " : "", item);
    const pattern = new RegExp(`(${words.map(escaped).join("|")})`, "iu");
    const cut = text.slice(start, start + 220).replace(/\s\S*$/u, "");
    for (const part of `${cut} …`.split(pattern)) {
      element(pattern.test(part) ? "mark" : "span", part, excerpt);
    }
  }
  const box = document.querySelector(".sidebar-search");
  if (box) box.value = query;
});
