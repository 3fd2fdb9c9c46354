/**
 * The tokens of a label selector's text. There is no quoting: a character is white space, a symbol or
 * part of a word.
 */

/** A word is a key, a value, or `in` and `notin` where an operator stands. */
export interface Token {
  readonly kind: 'word' | 'symbol' | 'end';
  readonly text: string;
}

const end: Token = { kind: 'end', text: '' };
const tokenExpression = /[ \t\r\n]*(?:(?<symbol>==|!=|[=!(),<>])|(?<word>[^ \t\r\n=!(),<>]+))/y;

/** Cuts a selector into words and symbols; one token is looked ahead. */
export class TokenReader {
  readonly #text: string;
  #at = 0;
  #ahead: Token | undefined;

  constructor(text: string) {
    this.#text = text;
  }

  peek(): Token {
    this.#ahead ??= this.#read();
    return this.#ahead;
  }

  next(): Token {
    const token = this.peek();
    this.#ahead = undefined;
    return token;
  }

  #read(): Token {
    tokenExpression.lastIndex = this.#at;
    const match = tokenExpression.exec(this.#text);
    if (match === null) return end;
    this.#at = tokenExpression.lastIndex;
    const symbol = match.groups?.['symbol'];
    return symbol === undefined
      ? { kind: 'word', text: match.groups?.['word'] ?? '' }
      : { kind: 'symbol', text: symbol };
  }
}
