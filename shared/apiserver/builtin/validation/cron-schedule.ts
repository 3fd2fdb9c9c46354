/**
 * Schedules as in crontab(5), with the complaints of the parser that Kubernetes uses (github.com/robfig/cron v3,
 * `parser.go`, ParseStandard).
 *
 * @module
 */

interface Field {
  readonly min: number;
  readonly max: number;
  readonly names?: readonly string[];
}

const months = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec'];
const days = ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat'];
const fields: readonly Field[] = [
  { min: 0, max: 59 },
  { min: 0, max: 23 },
  { min: 1, max: 31 },
  { min: 1, max: 12, names: months },
  { min: 0, max: 6, names: days },
];
const descriptors = ['@yearly', '@annually', '@monthly', '@weekly', '@daily', '@midnight', '@hourly'];

/** What is wrong with a schedule; `undefined` where nothing is. */
export function scheduleProblem(schedule: string): string | undefined {
  if (schedule === '') return 'empty spec string';
  if (schedule.startsWith('@')) {
    if (descriptors.includes(schedule)) return undefined;
    const every = '@every ';
    if (!schedule.startsWith(every)) return `unrecognized descriptor: ${schedule}`;
    const duration = schedule.slice(every.length);
    return /^(?:\d+(?:\.\d+)?(?:ns|us|µs|ms|s|m|h))+$/.test(duration)
      ? undefined
      : `failed to parse duration ${schedule}: time: invalid duration "${duration}"`;
  }
  const parts = schedule.trim().split(/\s+/);
  if (parts.length !== fields.length) {
    return `expected exactly ${fields.length} fields, found ${parts.length}: [${parts.join(' ')}]`;
  }
  for (const [index, field] of fields.entries()) {
    for (const expression of (parts[index] ?? '').split(',')) {
      const problem = rangeProblem(expression, field);
      if (problem !== undefined) return problem;
    }
  }
  return undefined;
}

function rangeProblem(expression: string, field: Field): string | undefined {
  const [range = '', step, ...moreSteps] = expression.split('/');
  if (moreSteps.length > 0) return `too many slashes: ${expression}`;
  const [low = '', high, ...moreBounds] = range.split('-');
  if (moreBounds.length > 0) return `too many hyphens: ${expression}`;
  let [start, end] = [field.min, field.max];
  if (low !== '*' && low !== '?') {
    const first = numberOf(low, field);
    if (typeof first === 'string') return first;
    const last = high === undefined ? first : numberOf(high, field);
    if (typeof last === 'string') return last;
    // `5/10`: from 5 on.
    [start, end] = [first, high === undefined && step !== undefined ? field.max : last];
  }
  if (step !== undefined) {
    const width = wholeNumber(step);
    if (typeof width === 'string') return width;
    if (width === 0) return `step of range should be a positive number: ${expression}`;
  }
  if (start < field.min) return `beginning of range (${start}) below minimum (${field.min}): ${expression}`;
  if (end > field.max) return `end of range (${end}) above maximum (${field.max}): ${expression}`;
  if (start > end) return `beginning of range (${start}) beyond end of range (${end}): ${expression}`;
  return undefined;
}

function numberOf(text: string, { names, min }: Field): number | string {
  const named = names?.indexOf(text.toLowerCase()) ?? -1;
  return named >= 0 ? named + min : wholeNumber(text);
}

function wholeNumber(text: string): number | string {
  if (/^[+]?\d+$/.test(text)) return Number(text);
  if (/^-\d+$/.test(text)) return `negative number (${Number(text)}) not allowed: ${text}`;
  return `failed to parse int from ${text}: strconv.Atoi: parsing ${JSON.stringify(text)}: invalid syntax`;
}
