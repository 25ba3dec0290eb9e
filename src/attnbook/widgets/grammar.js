// The built-in corpus' grammar read backwards: a Chinese sentence -> its English translation and the gold alignment of their words.
//
//   const read = grammarReader(text, forms);        // grammar.txt, and the forms of its English words (grammar_rules.py)
//   read([..."鼬喜欢茶。"]) -> {source, target, alignment: [[source index, target index], …]}, or null for a sentence that the grammar cannot write
//
// The notation is explained in text/grammar.py, whose `realize` this follows; tests/widgets/test_alignment_explorer.py compares the two on the corpus.

const GRAMMAR_SLOT = /(?<!\S)[A-Z][A-Za-z_]*(?:\/\d)?/g;
const GRAMMAR_ITEM = /^([A-Z][A-Za-z_]*(?:\/\d)?|[.,?]|[^.*@=]+)(?:\.(\w+))?(\*?)(?:@([\w/]+))?(?:=([\w,.]+))?$/;
const SHORTEST_PAIR = 3, LONGEST_PAIR = 40; // tokens of either side

// The lines of a family, once for each of its values; other lines as they are.
function* expandFamilies(text) {
  let names = [], values = [];
  for (const line of text.replace(/;\s*\n\s*/g, "; ").split("\n")) {
    if (!line.trim() || line.startsWith("#")) continue;
    const family = /^for ([\w ]+?) in (.+):$/.exec(line);
    if (family) {
      names = family[1].split(/\s+/);
      values = family[2].split(";").map(value => value.trim().split(/\s+/));
    } else if (line.startsWith(" ")) {
      for (const value of values) yield names.reduce((member, name, i) => member.replaceAll(`<${name}>`, value[i]), line.trim());
    } else yield line;
  }
}

// An item: {text, slot (its number, or null), symbol, isHead, form, agrees (a slot's number, or "i", "sg", "pl"), links, takesLinks}
function readTemplate(template, slots) {
  const items = template.trim().split(/\s+/).map(word => {
    const [, text, form = "", star, agrees = null, links] = GRAMMAR_ITEM.exec(word), slot = slots.indexOf(text), agreement = slots.indexOf(agrees);
    return {text, slot: slot < 0 ? null : slot, symbol: text.split("/")[0], isHead: star === "*", form, agrees: agreement < 0 ? agrees : agreement, links: links ? links.split(",") : [], takesLinks: false};
  });
  if (!items.some(item => item.isHead)) for (const item of items) item.takesLinks = true;
  return items;
}

function readRule(line) {
  const cut = line.indexOf(": "), fields = line.slice(cut + 2).split(" | "), [whole, ...parts] = fields[1].split(" || ");
  const slots = [...new Set(fields[0].match(GRAMMAR_SLOT) ?? [])], english = {"": readTemplate(whole, slots)};
  for (const part of parts) { const at = part.indexOf(": "); english[part.slice(0, at)] = readTemplate(part.slice(at + 2), slots); }
  const chinese = readTemplate(fields[0], slots);
  // One expression: all its words are aligned with each other.
  if (!slots.length && !chinese.some(item => item.links.length)) for (const item of [chinese, ...Object.values(english)].flat()) item.links = ["0"];
  const options = Object.fromEntries((fields[2] ?? "").split(" ").filter(Boolean).map(option => option.split("=")));
  return {head: line.slice(0, cut).split(" ")[0], chinese, english, options, slots};
}

export function grammarReader(text, forms) {
  const rules = new Map();
  for (const line of expandFamilies(text)) {
    const rule = readRule(line);
    if (!rules.has(rule.head)) rules.set(rule.head, []);
    rules.get(rule.head).push(rule);
  }
  const measureWords = new Set([...rules.values()].flat().map(rule => rule.options.cl).filter(Boolean));
  const inflected = (word, form, agreement) => forms[`${word} ${form} ${agreement}`] ?? forms[`${word} ${form}`] ?? word;
  const formOf = (item, asked) => item.form || (item.isHead ? asked : "");

  // The first characters that a symbol can begin with: most rules are ruled out by one look.
  const firsts = new Map();
  function firstOf(symbol) {
    if (!firsts.has(symbol)) firsts.set(symbol, new Set(rules.get(symbol).flatMap(rule => [...(rule.first = rule.chinese[0].slot === null ? new Set(rule.chinese[0].text === "~" ? ["了"] : [rule.chinese[0].text[0]]) : firstOf(rule.chinese[0].symbol))])));
    return firsts.get(symbol);
  }
  for (const symbol of rules.keys()) firstOf(symbol);

  // A chart: everything that a symbol in a form can be from a place on, [end, derivation]; a derivation is {rule, children}.
  function derivations(tokens) {
    const chart = new Map();
    function from(symbol, form, start) {
      const key = `${symbol} ${form} ${start}`;
      if (!chart.has(key)) chart.set(key, rules.get(symbol).flatMap(rule => (rule.first.has(tokens[start]) ? expand(rule, form, start) : [])));
      return chart.get(key);
    }
    function expand(rule, form, start) {
      let states = [[start, {}]];
      for (const item of rule.chinese) {
        const wanted = formOf(item, form), after = [];
        for (const [place, bound] of states) {
          if (item.slot !== null && wanted === "cl") { // which one is checked when the noun is known
            if (measureWords.has(tokens[place])) after.push([place + 1, bound]);
          } else if (item.slot !== null) {
            for (const [end, child] of from(item.symbol, wanted, place)) after.push([end, {...bound, [item.slot]: child}]);
          } else {
            const word = item.text !== "~" ? [...item.text] : form === "le" ? ["了"] : [];
            if (word.every((character, i) => tokens[place + i] === character)) after.push([place + word.length, bound]);
          }
        }
        states = after;
        if (!states.length) break;
      }
      return states.map(([end, bound]) => [end, {rule, children: rule.slots.map((_, i) => bound[i])}]);
    }
    return from("S", "", 0).filter(([end]) => end === tokens.length).map(([, derivation]) => derivation);
  }

  function agreementOf({rule, children}) {
    if (rule.options.agr) return rule.options.agr;
    return rule.english[""].length === 1 && children.length ? agreementOf(children[0]) : "sg";
  }

  // Both sides of a derivation, as lists of [token, links]; a link is the name of a rule's use and of the letter.
  function realise(derivation) {
    const uses = new Map(), chinese = [], english = [];
    const use = at => { if (!uses.has(at)) uses.set(at, uses.size); return uses.get(at); };
    const linksOf = (at, item, inherited) => [...(item.isHead || item.takesLinks ? inherited : []), ...item.links.map(link => `${use(at)} ${link}`)];
    (function write(at, form, inherited) {
      const {rule, children} = at;
      if (form === "cl" && rule.options.cl) { chinese.push([rule.options.cl, inherited]); return; }
      for (const item of rule.chinese) {
        if (form === "cl" && !item.isHead) continue;
        const links = linksOf(at, item, inherited);
        if (item.slot !== null) write(children[item.slot], formOf(item, form), links);
        else if (item.text !== "~") for (const character of item.text) chinese.push([character, links]);
        else if (form === "le") chinese.push(["了", links]);
      }
    })(derivation, "", []);
    (function write(at, form, agreement, inherited) {
      const {rule, children} = at;
      for (const item of rule.english[form] ?? rule.english[""]) {
        const links = linksOf(at, item, inherited);
        let agrees = item.agrees ?? agreement;
        if (typeof agrees === "number") agrees = agreementOf(children[agrees]);
        if (item.slot !== null) write(children[item.slot], formOf(item, form), agrees, links);
        else english.push([inflected(item.text, formOf(item, form), agrees), links]);
      }
    })(derivation, "", "sg", []);
    english.forEach((token, i) => { if (token[0] === "a") token[0] = /^[aeiou]/.test(english[i + 1][0]) ? "an" : "a"; });
    return {chinese, english};
  }

  return function read(tokens) {
    if (tokens.length < SHORTEST_PAIR || tokens.length > LONGEST_PAIR) return null;
    for (const derivation of derivations(tokens)) {
      const {chinese, english} = realise(derivation);
      if (english.length < SHORTEST_PAIR || english.length > LONGEST_PAIR || chinese.length !== tokens.length || chinese.some(([token], i) => token !== tokens[i])) continue;
      const alignment = chinese.flatMap(([, links], s) => english.flatMap(([, others], t) => (links.some(link => others.includes(link)) ? [[s, t]] : [])));
      return {source: chinese.map(([token]) => token), target: english.map(([token]) => token), alignment};
    }
    return null;
  };
}
