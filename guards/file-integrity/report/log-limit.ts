/** Makes a report fit into a ConfigMap, which may have 1 MiB including all its names and labels (Kubernetes, MaxSecretSize). */
import { gzipSync } from 'node:zlib';

/** The File Integrity Operator's limit. */
export const logLimitBytes = 1_048_570;

export interface FittedLog {
  readonly data: string;
  /** Whether `data` is compressed with gzip and encoded in base64. */
  readonly compressed: boolean;
  /** Whether `data` only says where the report is. */
  readonly tooLarge: boolean;
}

/**
 * The report; compressed and encoded in base64 if it is too long; if that is too long too, a text that says where the
 * report is on the node.
 */
export function fitLog(report: string, whereOnNode: string, limitBytes: number = logLimitBytes): FittedLog {
  const bytes = Buffer.from(report, 'utf8');
  if (bytes.length <= limitBytes) return { data: report, compressed: false, tooLarge: false };
  const data = gzipSync(bytes, { level: 9 }).toString('base64');
  if (data.length <= limitBytes) return { data, compressed: true, tooLarge: false };
  const size = `${bytes.length} bytes, ${data.length} compressed`;
  const text = `The report is too large for a ConfigMap (${size}; the limit is ${limitBytes}). It is stored on the node: ${whereOnNode}\n`;
  return { data: text, compressed: false, tooLarge: true };
}
