/**
 * X.509 certificates (RFC 5280) for one server: its own authority, and the certificates that it signs. node:crypto
 * reads certificates and signs bytes, but makes no certificates, and not every machine has an openssl binary.
 *
 * Keys are ECDSA on P-256.
 */
import {
  createHash,
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
  randomBytes,
  sign,
  X509Certificate,
} from 'node:crypto';
import { isIP, isIPv4 } from 'node:net';

import { errorCodes, RampartError } from '../errors/errors.ts';
import {
  bitString,
  boolean,
  explicit,
  implicit,
  namedBits,
  octetString,
  oid,
  sequence,
  set,
  time,
  unsignedInteger,
  utf8String,
} from './der.ts';

/** A private key and its certificate, in PEM. */
export interface KeyAndCertificate {
  readonly key: string;
  readonly cert: string;
}

interface Validity {
  readonly now: Date;
  readonly days: number;
}

const dayMs = 24 * 3600 * 1000;
/** How long before now certificates become valid: clocks of machines differ. */
const backdateMs = 3600 * 1000;

const oids = {
  ecdsaWithSha256: '1.2.840.10045.4.3.2',
  commonName: '2.5.4.3',
  organization: '2.5.4.10',
  subjectKeyIdentifier: '2.5.29.14',
  keyUsage: '2.5.29.15',
  subjectAltName: '2.5.29.17',
  basicConstraints: '2.5.29.19',
  authorityKeyIdentifier: '2.5.29.35',
  extendedKeyUsage: '2.5.29.37',
  serverAuth: '1.3.6.1.5.5.7.3.1',
};
/** Bits of KeyUsage. */
const usages = { digitalSignature: 0, keyCertSign: 5, cRLSign: 6 };

/** A new authority that may sign server certificates, but no other authorities. */
export function issueAuthority(name: string, { now, days }: Validity): KeyAndCertificate {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const keyId = keyIdentifier(publicKey);
  const distinguished = distinguishedName(name);
  const cert = certificate(privateKey, {
    issuer: distinguished,
    subject: distinguished,
    validity: { now, days },
    publicKey,
    extensions: [
      extension(oids.basicConstraints, true, sequence(boolean(true), unsignedInteger(Buffer.from([0])))),
      extension(oids.keyUsage, true, namedBits([usages.keyCertSign, usages.cRLSign])),
      extension(oids.subjectKeyIdentifier, false, octetString(keyId)),
    ],
  });
  return { key: pemOfKey(privateKey), cert };
}

/**
 * A new key and certificate for a server.
 *
 * @param hosts DNS names and IP addresses that clients may call it by; at least one.
 * @throws {RampartError} `INPUT` for what is neither.
 */
export function issueServerCertificate(
  authority: KeyAndCertificate,
  hosts: readonly string[],
  validity: Validity,
): KeyAndCertificate {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const authorityKey = createPrivateKey(authority.key);
  const [first = 'localhost'] = hosts;
  const cert = certificate(authorityKey, {
    issuer: rawSubject(authority.cert),
    subject: distinguishedName(first.slice(0, 64)),
    validity,
    publicKey,
    extensions: [
      extension(oids.basicConstraints, true, sequence()),
      extension(oids.keyUsage, true, namedBits([usages.digitalSignature])),
      extension(oids.extendedKeyUsage, false, sequence(oid(oids.serverAuth))),
      extension(oids.subjectAltName, false, sequence(...hosts.map(generalName))),
      extension(oids.subjectKeyIdentifier, false, octetString(keyIdentifier(publicKey))),
      extension(
        oids.authorityKeyIdentifier,
        false,
        sequence(implicit(0, keyIdentifier(createPublicKey(authorityKey)))),
      ),
    ],
  });
  return { key: pemOfKey(privateKey), cert };
}

interface CertificateParts {
  readonly issuer: Uint8Array;
  readonly subject: Uint8Array;
  readonly validity: Validity;
  readonly publicKey: KeyObject;
  readonly extensions: readonly Uint8Array[];
}

function certificate(signingKey: KeyObject, parts: CertificateParts): string {
  const { now, days } = parts.validity;
  const algorithm = sequence(oid(oids.ecdsaWithSha256));
  const serial = randomBytes(16);
  const toBeSigned = sequence(
    explicit(0, unsignedInteger(Buffer.from([2]))), // v3
    unsignedInteger(serial),
    algorithm,
    parts.issuer,
    sequence(time(new Date(now.getTime() - backdateMs)), time(new Date(now.getTime() + days * dayMs))),
    parts.subject,
    parts.publicKey.export({ type: 'spki', format: 'der' }),
    explicit(3, sequence(...parts.extensions)),
  );
  const signature = sign('sha256', toBeSigned, { key: signingKey, dsaEncoding: 'der' });
  return pem('CERTIFICATE', sequence(toBeSigned, algorithm, bitString(signature)));
}

function extension(id: string, isCritical: boolean, value: Uint8Array): Buffer {
  return sequence(oid(id), ...(isCritical ? [boolean(true)] : []), octetString(value));
}

function distinguishedName(commonName: string): Buffer {
  const part = (id: string, text: string): Buffer => set(sequence(oid(id), utf8String(text)));
  return sequence(part(oids.organization, 'Rampart'), part(oids.commonName, commonName));
}

/**
 * The encoded subject of a certificate: the issuer of the certificates that it signs has to have the same
 * bytes. Names are made by {@link distinguishedName} only, so they can be made again.
 */
function rawSubject(certPem: string): Buffer {
  const { subject } = new X509Certificate(certPem);
  const name = /^CN=(.*)$/m.exec(subject)?.[1];
  if (name === undefined) throw new TypeError('an authority without a common name');
  return distinguishedName(name);
}

/** RFC 5280, 4.2.1.2, method (1): SHA-1 of the key's bits. It only identifies the key; nothing relies on its strength. */
function keyIdentifier(publicKey: KeyObject): Buffer {
  const spki = publicKey.export({ type: 'spki', format: 'der' });
  // The point is the last 65 bytes: uncompressed, as node exports it.
  return createHash('sha1').update(spki.subarray(-65)).digest();
}

const dnsName =
  /^(?=.{1,253}$)(\*\.)?[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*$/i;

/** RFC 5280, 4.2.1.6. */
function generalName(host: string): Buffer {
  if (isIP(host) !== 0) return implicit(7, addressBytes(host));
  if (dnsName.test(host)) return implicit(2, Buffer.from(host));
  throw new RampartError(errorCodes.INPUT, {
    what: `cannot create a certificate for ${JSON.stringify(host)}`,
    why: 'it is neither a DNS name nor an IP address',
  });
}

function addressBytes(address: string): Buffer {
  if (isIPv4(address)) return Buffer.from(address.split('.').map(Number));
  // The URL parser turns any form of an IPv6 address into the shortest one, without dots.
  const [plain = ''] = address.split('%', 1);
  const short = new URL(`http://[${plain}]`).hostname.slice(1, -1);
  const [head = '', tail] = short.split('::');
  const groups = (text: string): string[] => (text === '' ? [] : text.split(':'));
  const before = groups(head);
  const after = groups(tail ?? '');
  const zeros = Array.from({ length: 8 - before.length - after.length }, () => '0');
  const bytes = Buffer.alloc(16);
  for (const [index, group] of [...before, ...zeros, ...after].entries()) {
    bytes.writeUInt16BE(Number.parseInt(group, 16), index * 2);
  }
  return bytes;
}

function pem(label: string, der: Uint8Array): string {
  const lines =
    Buffer.from(der)
      .toString('base64')
      .match(/.{1,64}/g) ?? [];
  return `-----BEGIN ${label}-----\n${lines.join('\n')}\n-----END ${label}-----\n`;
}

function pemOfKey(key: KeyObject): string {
  return key.export({ type: 'pkcs8', format: 'pem' }).toString();
}
