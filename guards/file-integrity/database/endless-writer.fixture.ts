/** Writes one baseline after the other over the same path until it is killed; says when it has begun. */
import { entryOf, header, secretKey } from './baseline.fixture.ts';
import { setOf } from '../model/attributes.ts';
import { writeBaseline } from './write-baseline.ts';

const path = process.argv[2] ?? '';
for (let round = 0; ; round++) {
  const entries = Array.from({ length: 3000 }, (_, i) =>
    entryOf({
      path: `/${String(i).padStart(5, '0')}`,
      attributes: setOf('n', 'sha256'),
      linkCount: round,
      sha256: Buffer.alloc(32, i),
    }),
  );
  await writeBaseline({
    path,
    key: secretKey,
    header: { ...header, configDigest: String(round) },
    entries: [entries],
  });
  process.stdout.write('.');
}
