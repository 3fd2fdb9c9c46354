/**
 * Times as the API server writes them: `metav1.Time` has whole seconds, `metav1.MicroTime` six digits, both in UTC
 * (apimachinery `pkg/apis/meta/v1/time.go`, `micro_time.go`). What is finer is cut off.
 *
 * @module
 */
import { apiTime } from '../../kube/api-time.ts';

const pattern = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d+))?(Z|[+-]\d\d:\d\d)$/;
const secondsLength = '2026-11-21T10:00:00Z'.length;
const microLength = '2026-11-21T10:00:00.000000Z'.length;

/** The canonical text. What is no time is returned as it is, for the schema to refuse. */
export function canonicalTime(value: unknown, isMicro: boolean): unknown {
  if (typeof value !== 'string') return value;
  if (value.length === (isMicro ? microLength : secondsLength) && value.endsWith('Z')) return value;
  const [, seconds = '', fraction = '', zone = ''] = pattern.exec(value) ?? [];
  const ms = Date.parse(`${seconds}${zone}`);
  if (Number.isNaN(ms)) return value;
  const text = apiTime(ms);
  return isMicro ? `${text.slice(0, -1)}.${fraction.slice(0, 6).padEnd(6, '0')}Z` : text;
}
