/**
 * Metrics as text for Prometheus (https://prometheus.io/docs/instrumenting/exposition_formats/, version 0.0.4).
 */
import { errorCodes, RampartError } from '../errors/errors.ts';

/** A number at a scrape; `labels` is empty for a metric without any. */
export interface Sample {
  /** Suffix of a histogram's line after the metric's name: `_bucket`, `_sum` or `_count`. */
  readonly suffix?: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number | bigint;
}

export interface Metric {
  readonly name: string;
  readonly help: string;
  readonly type: 'counter' | 'gauge' | 'histogram';
  readonly labelNames: readonly string[];
  /** Called at each scrape. */
  readonly read: () => Iterable<Sample>;
}

/** The metrics of one process, in the order in which they were registered. */
export class Registry {
  readonly contentType = 'text/plain; version=0.0.4; charset=utf-8';
  readonly #metrics = new Map<string, Metric>();

  /** @throws {RampartError} `INPUT` for a name that is registered already. */
  register(metric: Metric): void {
    if (this.#metrics.has(metric.name)) {
      throw new RampartError(errorCodes.INPUT, {
        what: `metric ${metric.name}`,
        why: 'a metric with that name already exists',
      });
    }
    this.#metrics.set(metric.name, metric);
  }

  /** All of them, read now. @throws what reading one throws. */
  metrics(): string {
    let text = '';
    for (const { name, help, type, labelNames, read } of this.#metrics.values()) {
      text += `# HELP ${name} ${help.replace(/[\\\n]/g, escapeCharacter)}\n# TYPE ${name} ${type}\n`;
      for (const { suffix = '', labels, value } of read()) {
        text += `${name}${suffix}${labelText(name, labelNames, labels)} ${numberText(Number(value))}\n`;
      }
    }
    return text;
  }
}

const escapes: Readonly<Record<string, string>> = { '\\': '\\\\', '\n': '\\n', '"': '\\"' };

function escapeCharacter(character: string): string {
  return escapes[character] ?? character;
}

function labelText(name: string, known: readonly string[], labels: Readonly<Record<string, string>>): string {
  const pairs: string[] = [];
  for (const [label, value] of Object.entries(labels)) {
    if (!known.includes(label)) {
      throw new RampartError(errorCodes.INPUT, {
        what: `label ${label} of metric ${name}`,
        why: `its labels are: ${known.join(', ') || 'none'}`,
      });
    }
    pairs.push(`${label}="${value.replace(/[\\\n"]/g, escapeCharacter)}"`);
  }
  return pairs.length === 0 ? '' : `{${pairs.join(',')}}`;
}

function numberText(value: number): string {
  if (Number.isFinite(value)) return String(value);
  return Number.isNaN(value) ? 'NaN' : value > 0 ? '+Inf' : '-Inf';
}
