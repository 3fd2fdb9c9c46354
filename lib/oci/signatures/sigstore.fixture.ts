/**
 * A Sigstore instance: an authority that certifies identities for ten minutes, the log of its certificates and the log of signatures.
 * Its certificates are made here, as `node:crypto` makes none.
 */
import { createHash, generateKeyPairSync, type KeyObject, randomBytes, sign } from 'node:crypto';

/** The properties of a signature; the defaults make a valid one. */
export interface KeylessSigning {
  readonly issuer?: string;
  /** A URI, or an e-mail address. */
  readonly subject?: string;
  /** When the log received it, after the certificate was issued. Default: one minute. */
  readonly loggedAfterMs?: number;
  /** Default: it is in the log of certificates. */
  readonly certificateLogged?: boolean;
  /** Default: code signing. */
  readonly extendedKeyUsage?: string;
  /** Default: version 2 of the extension. */
  readonly issuerVersion?: 1 | 2;
}

/** Annotations of the layer of a signature, as cosign writes them. */
export type SignatureAnnotations = Readonly<Record<string, string>>;

export const signatureAnnotation = 'dev.cosignproject.cosign/signature';
export const certificateAnnotation = 'dev.sigstore.cosign/certificate';
export const bundleAnnotation = 'dev.sigstore.cosign/bundle';

const MINUTE_MS = 60_000;

export class SigstoreFixture {
  readonly #authority = pair();
  readonly #intermediate = pair();
  readonly #signatureLog = pair();
  readonly #certificateLog = pair();
  readonly #issuedAt = new Date(Math.floor(Date.now() / 1000) * 1000 - 60 * MINUTE_MS);
  readonly #chain: readonly Buffer[];

  constructor() {
    const names = { root: name('root'), intermediate: name('intermediate') };
    const life = { from: this.#issuedAt, to: new Date(this.#issuedAt.getTime() + 24 * 60 * MINUTE_MS) };
    const keyIds = {
      root: keyId(this.#authority.publicKey),
      intermediate: keyId(this.#intermediate.publicKey),
    };
    const of = (subject: 'intermediate' | 'root', key: KeyObject): Buffer =>
      certificate(
        tbs({
          ...life,
          issuer: names.root,
          subject: names[subject],
          key,
          extensions: [...authorityExtensions, subjectKeyId(keyIds[subject]), authorityKeyId(keyIds.root)],
        }),
        this.#authority.privateKey,
      );
    this.#chain = [of('intermediate', this.#intermediate.publicKey), of('root', this.#authority.publicKey)];
  }

  /** `trusted_root.json` of Sigstore. */
  get trustRoot(): Record<string, unknown> {
    const validFor = { start: new Date(this.#issuedAt.getTime() - 60 * MINUTE_MS).toISOString() };
    const log = (key: KeyObject): object => ({
      baseUrl: 'https://log.example',
      hashAlgorithm: 'SHA2_256',
      publicKey: {
        rawBytes: spki(key).toString('base64'),
        keyDetails: 'PKIX_ECDSA_P256_SHA_256',
        validFor,
      },
      logId: { keyId: sha256(spki(key)).toString('base64') },
    });
    return {
      mediaType: 'application/vnd.dev.sigstore.trustedroot+json;version=0.1',
      tlogs: [log(this.#signatureLog.publicKey)],
      certificateAuthorities: [
        {
          subject: { organization: 'example', commonName: 'fulcio' },
          uri: 'https://fulcio.example',
          certChain: { certificates: this.#chain.map((one) => ({ rawBytes: one.toString('base64') })) },
          validFor,
        },
      ],
      ctlogs: [log(this.#certificateLog.publicKey)],
    };
  }

  /** Signs with a key that is forgotten afterwards. */
  sign(payload: Uint8Array, signing: KeylessSigning = {}): SignatureAnnotations {
    const signer = pair();
    const pem = toPem(this.#certify(signer.publicKey, signing));
    const signature = sign('sha256', payload, signer.privateKey);
    const loggedAt = this.#issuedAt.getTime() + (signing.loggedAfterMs ?? MINUTE_MS);
    return {
      [signatureAnnotation]: signature.toString('base64'),
      [certificateAnnotation]: pem,
      [bundleAnnotation]: this.#log(payload, signature, pem, loggedAt),
    };
  }

  #certify(key: KeyObject, signing: KeylessSigning): Buffer {
    const { issuer = 'https://issuer.example', subject = 'dev@team.example' } = signing;
    const { extendedKeyUsage = '1.3.6.1.5.5.7.3.3', issuerVersion = 2 } = signing;
    // https://github.com/sigstore/fulcio/blob/main/docs/oid-info.md
    const issuedBy =
      issuerVersion === 2
        ? extension('1.3.6.1.4.1.57264.1.8', der(0x0c, Buffer.from(issuer)))
        : extension('1.3.6.1.4.1.57264.1.1', Buffer.from(issuer));
    const serial = randomBytes(8);
    const entry = (...more: readonly Buffer[]): Buffer =>
      tbs({
        serial,
        from: this.#issuedAt,
        to: new Date(this.#issuedAt.getTime() + 10 * MINUTE_MS),
        issuer: name('intermediate'),
        subject: sequence(),
        key,
        extensions: [
          extension('2.5.29.15', der(0x03, Buffer.from([7, 0x80])), true),
          extension('2.5.29.37', sequence(oid(extendedKeyUsage))),
          subjectKeyId(keyId(key)),
          authorityKeyId(keyId(this.#intermediate.publicKey)),
          extension(
            '2.5.29.17',
            sequence(der(subject.includes('://') ? 0x86 : 0x81, Buffer.from(subject))),
            true,
          ),
          issuedBy,
          ...more,
        ],
      });
    const timestamps = signing.certificateLogged === false ? [] : [this.#certificateTimestamp(entry())];
    return certificate(entry(...timestamps), this.#intermediate.privateKey);
  }

  /** RFC 6962, 3.2 and 3.3. */
  #certificateTimestamp(precertificate: Buffer): Buffer {
    const issuedAt = Buffer.alloc(8);
    issuedAt.writeBigUInt64BE(BigInt(this.#issuedAt.getTime()));
    const issuerHash = sha256(spki(this.#intermediate.publicKey));
    const signed = Buffer.concat([
      Buffer.from([0, 0]),
      issuedAt,
      uint(2, 1),
      issuerHash,
      uint(3, precertificate.length),
      precertificate,
      uint(2, 0),
    ]);
    const signature = sign('sha256', signed, this.#certificateLog.privateKey);
    const logId = sha256(spki(this.#certificateLog.publicKey));
    const timestamp = Buffer.concat([
      Buffer.from([0]),
      logId,
      issuedAt,
      uint(2, 0),
      Buffer.from([4, 3]),
      uint(2, signature.length),
      signature,
    ]);
    const list = Buffer.concat([uint(2, timestamp.length), timestamp]);
    return extension('1.3.6.1.4.1.11129.2.4.2', der(0x04, uint(2, list.length), list));
  }

  /** An entry of Rekor, with what it promises. */
  #log(payload: Uint8Array, signature: Buffer, pem: string, atMs: number): string {
    const body = {
      apiVersion: '0.0.1',
      kind: 'hashedrekord',
      spec: {
        data: { hash: { algorithm: 'sha256', value: sha256(payload).toString('hex') } },
        signature: {
          content: signature.toString('base64'),
          publicKey: { content: Buffer.from(pem).toString('base64') },
        },
      },
    };
    // Sorted by name: what is signed is canonical JSON.
    const entry = {
      body: Buffer.from(JSON.stringify(body)).toString('base64'),
      integratedTime: atMs / 1000,
      logID: sha256(spki(this.#signatureLog.publicKey)).toString('hex'),
      logIndex: 7,
    };
    const promise = sign('sha256', Buffer.from(JSON.stringify(entry)), this.#signatureLog.privateKey);
    return JSON.stringify({ SignedEntryTimestamp: promise.toString('base64'), Payload: entry });
  }
}

function pair(): { publicKey: KeyObject; privateKey: KeyObject } {
  return generateKeyPairSync('ec', { namedCurve: 'P-256' });
}

function spki(key: KeyObject): Buffer {
  return key.export({ type: 'spki', format: 'der' });
}

function sha256(bytes: Uint8Array): Buffer {
  return createHash('sha256').update(bytes).digest();
}

function keyId(key: KeyObject): Buffer {
  return sha256(spki(key)).subarray(0, 20);
}

function uint(sizeBytes: number, value: number): Buffer {
  const bytes = Buffer.alloc(sizeBytes);
  bytes.writeUIntBE(value, 0, sizeBytes);
  return bytes;
}

/** A value with its tag and length. */
function der(tag: number, ...parts: readonly Buffer[]): Buffer {
  const content = Buffer.concat(parts);
  const { length } = content;
  const head = length < 128 ? [length] : length < 256 ? [0x81, length] : [0x82, length >> 8, length & 255];
  return Buffer.concat([Buffer.from([tag, ...head]), content]);
}

function sequence(...parts: readonly Buffer[]): Buffer {
  return der(0x30, ...parts);
}

function oid(text: string): Buffer {
  const [first = 0, second = 0, ...others] = text.split('.').map(Number);
  const bytes = [first * 40 + second, ...others].flatMap((arc) => {
    const groups = [arc & 127];
    for (let rest = arc >> 7; rest > 0; rest >>= 7) groups.unshift((rest & 127) | 128);
    return groups;
  });
  return der(0x06, Buffer.from(bytes));
}

function name(common: string): Buffer {
  return sequence(der(0x31, sequence(oid('2.5.4.3'), der(0x0c, Buffer.from(common)))));
}

function time(date: Date): Buffer {
  return der(0x18, Buffer.from(`${date.toISOString().replaceAll(/[-:T]|\.\d+Z/g, '')}Z`));
}

function extension(id: string, value: Buffer, critical = false): Buffer {
  const mark = critical ? [der(0x01, Buffer.from([255]))] : [];
  return sequence(oid(id), ...mark, der(0x04, value));
}

function subjectKeyId(id: Buffer): Buffer {
  return extension('2.5.29.14', der(0x04, id));
}

function authorityKeyId(id: Buffer): Buffer {
  return extension('2.5.29.35', sequence(der(0x80, id)));
}

const authorityExtensions = [
  extension('2.5.29.19', sequence(der(0x01, Buffer.from([255]))), true),
  extension('2.5.29.15', der(0x03, Buffer.from([1, 0x06])), true),
];

const ecdsaWithSha256 = sequence(oid('1.2.840.10045.4.3.2'));

interface Certified {
  readonly serial?: Buffer;
  readonly from: Date;
  readonly to: Date;
  readonly issuer: Buffer;
  readonly subject: Buffer;
  readonly key: KeyObject;
  readonly extensions: readonly Buffer[];
}

/** The signed part of a certificate. */
function tbs({ serial = randomBytes(8), from, to, issuer, subject, key, extensions }: Certified): Buffer {
  return sequence(
    der(0xa0, der(0x02, Buffer.from([2]))),
    // Positive, and without leading zeros.
    der(0x02, Buffer.from([0x40]), serial),
    ecdsaWithSha256,
    issuer,
    sequence(time(from), time(to)),
    subject,
    spki(key),
    der(0xa3, sequence(...extensions)),
  );
}

function certificate(signed: Buffer, key: KeyObject): Buffer {
  return sequence(signed, ecdsaWithSha256, der(0x03, Buffer.from([0]), sign('sha256', signed, key)));
}

function toPem(bytes: Buffer): string {
  const lines = bytes.toString('base64').match(/.{1,64}/g) ?? [];
  return ['-----BEGIN CERTIFICATE-----', ...lines, '-----END CERTIFICATE-----', ''].join('\n');
}
