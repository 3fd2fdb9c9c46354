/** Lines of findings against their published schema, docs/findings.schema.json. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';

let validate: ValidateFunction | undefined;

/** @throws {AssertionError} what is wrong with the line. */
export function assertFinding(line: string): void {
  validate ??= new Ajv2020({
    allErrors: true,
    strict: true,
    strictRequired: false,
    strictTypes: false,
  }).compile(
    JSON.parse(readFileSync(join(import.meta.dirname, '../../docs/findings.schema.json'), 'utf8')) as object,
  );
  validate(JSON.parse(line));
  assert.deepEqual(validate.errors ?? [], [], line);
}
