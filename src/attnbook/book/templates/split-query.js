/* Splits a query: a run of Chinese characters becomes the longest words that the index holds; what is left of it
   goes to the browser's own segmentation. Other text is split at everything that is no letter or digit. */
function splitQuery(query) {
  const index = Search._index || {};
  const known = new Set([...Object.keys(index.terms || {}), ...Object.keys(index.titleterms || {})]);
  const segmenter = typeof Intl !== "undefined" && Intl.Segmenter ? new Intl.Segmenter("zh", {granularity: "word"}) : null;
  const natural = text =>
    segmenter ? [...segmenter.segment(text)].filter(s => s.isWordLike).map(s => s.segment) : [text];
  const LONGEST = 12;
  const chinese = run => {
    const words = [];
    let rest = "";
    for (let start = 0; start < run.length; ) {
      let end = Math.min(run.length, start + LONGEST);
      while (end > start + 1 && !known.has(run.slice(start, end))) end--;
      if (end > start + 1) {
        if (rest) words.push(...natural(rest));
        rest = "";
        words.push(run.slice(start, end));
      } else rest += run[start];
      start = end;
    }
    if (rest) words.push(...natural(rest));
    // The index leaves out single characters, so asking for one would find nothing.
    const long = words.filter(word => word.length > 1);
    return long.length ? long : words;
  };
  const words = [];
  for (const part of query.split(/[^\p{Letter}\p{Number}_\p{Emoji_Presentation}]+/gu))
    for (const piece of part.match(/\p{Script=Han}+|\P{Script=Han}+/gu) || [])
      words.push(.../\p{Script=Han}/u.test(piece) ? chinese(piece) : [piece]);
  return words;
}
