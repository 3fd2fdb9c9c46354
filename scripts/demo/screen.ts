/** The demo's output: headings, commands with their output, and waits. */
import { paint, wantsColour, wrapText } from '../../lib/output/table.ts';

/** Shorter waits are not shown. */
const SILENT_MS = 1_000;
const REDRAW_MS = 200;
const continued = ' \\\n';
const clearLine = '\r\u001b[K';

/** stdout, with the text that is only there while something is waited for. */
export class Screen {
  readonly colour: boolean;
  readonly widthColumns: number;
  readonly #out: NodeJS.WriteStream;
  #progressShown = false;

  constructor(out: NodeJS.WriteStream) {
    this.#out = out;
    this.colour = wantsColour(out);
    this.widthColumns = Math.max(60, Math.min(out.columns || 110, 120));
  }

  /** A line, or several. */
  line(text = ''): void {
    this.#clearProgress();
    this.#out.write(`${text}\n`);
  }

  heading(text: string): void {
    this.line(`\n${paint(['bold', 'underline'], text, this.colour)}`);
  }

  /** The next step, in a sentence. */
  step(text: string): void {
    this.line(`\n${wrapText(text, this.widthColumns).join('\n')}`);
  }

  /** A command as typed at `prompt`; a long one on several lines, in shell syntax. */
  command(command: string, prompt = '$'): void {
    const lines = wrapText(command, this.widthColumns - prompt.length - continued.length);
    this.line(paint('bold', `${prompt} ${lines.join(`${continued}    `)}`, this.colour));
  }

  /** The output of a command. */
  answer(text: string): void {
    if (text !== '') this.line(text.replaceAll(/^/gm, '  '));
  }

  /** A line of JSON, each member of the object on a line of its own, and long ones on several. */
  json(line: string): void {
    const width = this.widthColumns - 8;
    const tooLong = new RegExp(`(?=.{${width}})(.{1,${width}},)(?=")`, 'g');
    const members = Object.entries(JSON.parse(line) as object).map(([key, value]) =>
      JSON.stringify({ [key]: value as unknown })
        .slice(1, -1)
        .replaceAll(tooLong, '$1\n     '),
    );
    this.answer(`{${members.join(',\n ')}}`);
  }

  /** Waits, and says for what when it takes more than a second. */
  async during<T>(what: string, work: Promise<T>): Promise<T> {
    const startMs = performance.now();
    const terminal = Boolean(this.#out.isTTY);
    let reported = false;
    const timer = setInterval(() => {
      const elapsedMs = performance.now() - startMs;
      if (elapsedMs < SILENT_MS || (reported && !terminal)) return;
      reported = true;
      if (!terminal) return this.line(`  ... ${what}`);
      this.#clearProgress();
      this.#out.write(paint('dim', `  ... ${what} (${Math.trunc(elapsedMs / 1000)} s)`, this.colour));
      this.#progressShown = true;
    }, REDRAW_MS);
    try {
      return await work;
    } finally {
      clearInterval(timer);
      this.#clearProgress();
    }
  }

  #clearProgress(): void {
    if (!this.#progressShown) return;
    this.#progressShown = false;
    this.#out.write(clearLine);
  }
}
