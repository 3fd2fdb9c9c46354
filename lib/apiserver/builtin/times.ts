/**
 * Times as the API server writes them: `metav1.Time` has whole seconds, `metav1.MicroTime` six digits, both
 * in UTC (apimachinery `pkg/apis/meta/v1/time.go`, `micro_time.go`). Smaller fractions are cut off.
 */
import { apiTime } from '../../kube/object/api-time.ts';

const pattern = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d+))?(Z|[+-]\d\d:\d\d)$/;

/** The canonical text of a time; `undefined` if the value is not a time. */
export function canonicalTime(value: string, isMicro: boolean): string | undefined {
  const [, seconds = '', fraction = '', zone = ''] = pattern.exec(value) ?? [];
  const ms = Date.parse(`${seconds}${zone}`);
  if (Number.isNaN(ms)) return undefined;
  const text = apiTime(ms);
  return isMicro ? `${text.slice(0, -1)}.${fraction.slice(0, 6).padEnd(6, '0')}Z` : text;
}
