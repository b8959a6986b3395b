// Words as a shell takes them apart again, and the other way round. Pure.

/** As it is typed: quoted only where that is needed. */
export function quote(word: string): string {
  if (word !== '' && /^[A-Za-z0-9_=./:,%+@-]+$/.test(word)) return word;
  return `'${word.replaceAll("'", `'\\''`)}'`;
}

export function join(words: readonly string[]): string {
  return words.map(quote).join(' ');
}

export type Words = { words: string[] } | { error: string };

/** A command line as words: quotes and backslashes as in sh; nothing is expanded. */
export function split(line: string): Words {
  const words: string[] = [];
  let word = '';
  let inside = false;
  for (let i = 0; i < line.length; i += 1) {
    const letter = line.charAt(i);
    if (letter === "'") {
      const end = line.indexOf("'", i + 1);
      if (end < 0) return { error: "a ' is not closed" };
      word += line.slice(i + 1, end);
      inside = true;
      i = end;
    } else if (letter === '"') {
      inside = true;
      for (i += 1; line.charAt(i) !== '"'; i += 1) {
        if (i >= line.length) return { error: 'a " is not closed' };
        if (line.charAt(i) === '\\' && '"\\$`'.includes(line.charAt(i + 1))) i += 1;
        word += line.charAt(i);
      }
    } else if (letter === '\\') {
      if (i + 1 >= line.length) return { error: 'there is nothing behind the last \\' };
      i += 1;
      word += line.charAt(i);
      inside = true;
    } else if (/\s/.test(letter)) {
      if (inside) words.push(word);
      word = '';
      inside = false;
    } else {
      word += letter;
      inside = true;
    }
  }
  if (inside) words.push(word);
  return { words };
}
