// Text as the translators read and write it: attnbook.text.normalize, .tokenizers and .subwords in the page, character for
// character (tests/widgets/test_text.py compares them on random text).
//
// normalizeChinese(text), normalizeEnglish(text), toSimplified(text) -> text
// splitSentences(text) -> sentences         after 。！？； and line breaks
// tokenizeChinese(text, lower = true), tokenizeEnglish(text, lower = true) -> tokens
// detokenizeChinese(tokens) -> text
// detokenizeEnglish(tokens, casing) -> text; casing: a Map, lower-case token -> written form; null leaves the letters as they are
// bytePairs(merges) -> {encode(tokens) -> pieces, decode(pieces) -> tokens}; a merge is "th@@ e"

import SIMPLIFIED from "../text/simplified.txt" with {type: "text"};

// Python's \s, \w and \d. JavaScript's \s has U+FEFF and lacks U+001C to U+001F and U+0085; its \w and \d are ASCII.
const SPACE = "\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000";
const WORD = "\\p{L}\\p{N}";
const HAN = "\\u3400-\\u4dbf\\u4e00-\\u9fff\\uf900-\\ufaff";
const pattern = (source, flags = "gu") => new RegExp(source, flags);
const translation = pairs => { const map = new Map(pairs); return text => Array.from(text, c => map.get(c) ?? c).join(""); };
const paired = (from, to) => [...from].map((c, i) => [c, [...to][i]]);

// ---------------------------------------------------------------------- normalisation

const INVISIBLE = pattern("[\\u00ad\\u200b\\u2060\\ufeff]|[\\x00-\\x08\\x0e-\\x1f\\x7f]");
const SPACES = pattern(`[${SPACE}]+`);
const straighten = translation([...paired("‘’ʼ`“”„", "''''\"\"\""), ["…", "..."]]);
const toAscii = translation([...Array.from({length: 94}, (_, i) => [String.fromCharCode(0xff01 + i), String.fromCharCode(0x21 + i)]), ["\u3000", " "]]);
const toFullWidth = translation(paired(",!?:;()", "，！？：；（）"));
const asChinese = translation(paired("「」『』﹐｡･•", "“”“”,。··"));
const simplify = translation(SIMPLIFIED.split("\n").filter(line => !line.startsWith("#")).join(" ").split(" ").filter(Boolean).map(pair => [...pair]));
const BY_WORD = [
  ["(?<![名原編编專专土論论顯显])著(?![名作者稱称述書书])", "着"],
  ["瞭(?=解)", "了"],
  ["藉(?=[口由助])", "借"],
  ["(?<=[計计規规策企籌筹])畫", "划"],
  ["甚(?=[麼么麽])", "什"],
  ["乾(?![坤隆])", "干"],
].map(([source, replacement]) => [pattern(source), replacement]);
const STOP_AFTER_HAN = pattern(`(?<=[${HAN}”）])[${SPACE}]*\\.(?![${WORD}_.])`), LAST_STOP = pattern("(?<!\\.)\\.$"), ANY_HAN = pattern(`[${HAN}]`, "u");
const MARK = pattern(`[,!?:;()](?!(?<=\\p{Nd}[${SPACE}]?.)[${SPACE}]*\\p{Nd})`), SPACED_MARK = pattern(`[${SPACE}]*([，。！？：；（）“”、《》])[${SPACE}]*`);
const SPACE_IN_HAN = pattern(`(?<=[${HAN}])[${SPACE}]+(?=[${HAN}])`);

const compose = text => toAscii(text.replace(INVISIBLE, "")).normalize("NFC"); // an accent may come to its letter only then
const singleSpaces = text => text.split(SPACES).filter(Boolean).join(" ");

export const normalizeEnglish = text => singleSpaces(straighten(compose(text)));

export function normalizeChinese(text) {
  let out = singleSpaces(asChinese(compose(text))).replace(/"([^"]*)"/gu, "“$1”").replace(STOP_AFTER_HAN, "。");
  if (ANY_HAN.test(out)) out = out.replace(LAST_STOP, "。");
  out = out.replace(MARK, toFullWidth).replace(SPACED_MARK, "$1").replace(SPACE_IN_HAN, "");
  return toSimplified(out);
}

export const toSimplified = text => simplify(BY_WORD.reduce((out, [word, replacement]) => out.replace(word, replacement), text));

const SENTENCE_ENDS = "。！？!?；;\n", AFTER_END = "”’」』）)";
export function splitSentences(text) {
  const sentences = [], characters = [...text];
  let begun = "";
  characters.forEach((character, i) => {
    const before = begun.at(-1), following = characters[i + 1];
    begun += character;
    const ends = SENTENCE_ENDS.includes(character) || (AFTER_END.includes(character) && before !== undefined && SENTENCE_ENDS.includes(before));
    if (ends && (following === undefined || !(SENTENCE_ENDS + AFTER_END).includes(following))) { sentences.push(begun); begun = ""; }
  });
  const ends = pattern(`^[${SPACE}]+|[${SPACE}]+$`);
  return [...sentences, begun].map(sentence => sentence.replace(ends, "")).filter(Boolean);
}

// ---------------------------------------------------------------------- tokens

// Characters that stand alone (Han, kana, and what belongs to them), and what belongs to the character before it.
const IDEOGRAPHS = "\\u2e80-\\u2fdf\\u3005-\\u3007\\u3021-\\u3029\\u3040-\\u30ff\\u31f0-\\u31ff\\u3400-\\u4dbf\\u4e00-\\u9fff\\uf900-\\ufaff\\u{20000}-\\u{3ffff}";
const EXTENDERS = "[\\u0300-\\u036f\\u20d0-\\u20ff\\ufe00-\\ufe0f\\u{1f3fb}-\\u{1f3ff}\\u{e0020}-\\u{e007f}\\u{e0100}-\\u{e01ef}]*";
const LETTERS = `(?:(?![${IDEOGRAPHS}])[${WORD}]${EXTENDERS})+`;
const SYMBOL = `[^${SPACE}${WORD}_]${EXTENDERS}`;
const TOKEN = pattern([
  "(?:[A-Za-z]\\.){2,}", // p.m., U.S.
  "(?:[Mm]rs?|[Mm]s|[Dd]r)\\.(?!\\.)", // Mr.
  "\\p{Nd}+(?:[.,:]\\p{Nd}+)+", // 3.5, 10:30, 1,000
  `${LETTERS}(?:['\\-]${LETTERS})*`, // words, numbers, well-known, o'clock
  `[${IDEOGRAPHS}]${EXTENDERS}`, // 鼬
  "[\\u{1f1e6}-\\u{1f1ff}]{2}", // a flag is two letters
  "\\.{2,}|-{2,}", // ..., --
  `${SYMBOL}(?:\\u200d${SYMBOL})*`, // punctuation; an emoji with all its parts
  `[^${SPACE}]`,
].join("|"));
const CONTRACTION = /^(.+?)(n't|'(?:s|m|re|ll|d|ve))$/isu, CLITIC = /^(?:n't|'(?:s|m|re|ll|d|ve))$/iu;
const STARTS_WORD = pattern(`^(?![${IDEOGRAPHS}])[${WORD}]`, "u"), STARTS_HAN = pattern(`^[${IDEOGRAPHS}]`, "u");

export const tokenizeChinese = (text, lower = true) => (lower ? text.toLowerCase() : text).match(TOKEN) ?? [];
export const tokenizeEnglish = (text, lower = true) => tokenizeChinese(text, lower).flatMap(token => CONTRACTION.exec(token)?.slice(1) ?? [token]);

const startsWord = token => STARTS_WORD.test(token);
const isMixed = (left, right) => (startsWord(left) && STARTS_HAN.test(right)) || (STARTS_HAN.test(left) && startsWord(right));

// Whether a token stays a token when it is written at once after the tokens since the last space.
function joins(glued, token, tokenize) {
  let start = Math.max(0, glued.length - 4);
  while (start && CLITIC.test(glued[start])) start--; // 's is a token only after a word
  const before = glued.slice(start);
  const together = [...before, token], again = tokenize(together.join(""), false);
  return again.length === together.length && again.every((piece, i) => piece === together[i]);
}

export function detokenizeChinese(tokens) {
  let text = "", glued = []; // the tokens since the last space
  for (const token of tokens) {
    const last = glued.at(-1), spaced = glued.length && ((startsWord(token) && startsWord(last)) || isMixed(last, token));
    if (glued.length && (spaced || !joins(glued, token, tokenizeChinese))) { text += " "; glued = []; }
    text += token;
    glued.push(token);
  }
  return text;
}

const OPENING = new Set("([{$£€#/"), CLOSING = new Set([...".,!?:;)]}%/", "..."]), QUOTES = new Set("\"'"), TITLES = new Set(["mr.", "mrs.", "ms.", "dr."]);
export function detokenizeEnglish(tokens, casing) {
  let text = "", glued = [], glue = true, startsSentence = true;
  const openQuotes = new Set();
  tokens.forEach((token, i) => {
    const before = tokens[i - 1], closes = openQuotes.has(token) || (token === "'" && i > 0 && before.endsWith("s"));
    const begins = token[0] !== "'" && tokens[i + 1]?.[0] === "'" && CLITIC.test(tokens[i + 1]); // n't in "n't've"
    glue ||= closes || CLOSING.has(token) || (CLITIC.test(token) && !begins);
    if (glued.length && !(glue && joins(glued, token, tokenizeEnglish))) { text += " "; glued = []; }
    text += casing ? cased(token, casing, startsSentence || (i > 0 && TITLES.has(before))) : token;
    glued.push(token);
    glue = OPENING.has(token) || (QUOTES.has(token) && !closes);
    if (QUOTES.has(token)) { if (closes) openQuotes.delete(token); else openQuotes.add(token); }
    startsSentence = [".", "!", "?"].includes(token) || (startsSentence && !startsWord(token));
  });
  return text;
}

function cased(token, casing, capitalize) {
  const written = token === "i" ? "I" : (casing.get(token) ?? token), [first] = written, capital = first.toUpperCase();
  return capitalize && capital.toLowerCase() === first ? capital + written.slice(first.length) : written;
}

// ---------------------------------------------------------------------- subwords

const GOES_ON = "@@", STRETCH = 100; // at the end of a piece whose word goes on; characters that are joined together at most
export function bytePairs(merges) {
  const ranks = new Map(merges.map((merge, rank) => [merge, rank])), known = new Map();
  const joined = (left, right) => left.slice(0, -GOES_ON.length) + right;
  function merge(pieces) {
    for (;;) {
      let best = Infinity, pair;
      for (let i = 1; i < pieces.length; i++) {
        const rank = ranks.get(`${pieces[i - 1]} ${pieces[i]}`);
        if (rank < best) { best = rank; pair = [pieces[i - 1], pieces[i]]; }
      }
      if (!pair) return pieces;
      const next = [];
      for (let i = 0; i < pieces.length; i++)
        if (pieces[i] === pair[0] && pieces[i + 1] === pair[1]) next.push(joined(...pair)), i++;
        else next.push(pieces[i]);
      pieces = next;
    }
  }
  function cut(word) {
    if (word.includes(GOES_ON)) throw new Error(`tokens: expected no "${GOES_ON}" inside a token, found ${word.slice(0, 40)}`);
    const characters = [...word], pieces = characters.map((c, i) => (i < characters.length - 1 ? c + GOES_ON : c)), out = [];
    for (let start = 0; start < pieces.length; start += STRETCH) out.push(...merge(pieces.slice(start, start + STRETCH)));
    return out;
  }
  return {
    encode: tokens => tokens.flatMap(token => known.get(token) ?? (known.set(token, cut(token)), known.get(token))),
    decode(pieces) {
      const tokens = [];
      let begun = "";
      for (const piece of pieces)
        if (piece.length > GOES_ON.length && piece.endsWith(GOES_ON)) begun += piece.slice(0, -GOES_ON.length);
        else { tokens.push(begun + piece); begun = ""; }
      return begun ? [...tokens, begun] : tokens;
    },
  };
}
