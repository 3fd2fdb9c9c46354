/**
 * The names of the objects that belong to a FileIntegrity. They are those of the File Integrity Operator; in a name
 * that is too long, a digest replaces a part.
 */
import { hash } from 'node:crypto';

/** The File Integrity Operator shortens names of 64 characters or more. */
const SHORT = 64;
const MAX_LABEL = 63;
const MAX_NAME = 253;

/** The ConfigMap in which an agent passes on a result: `aide-<fi>-<node>`. */
export function temporaryName(fileIntegrity: string, nodeName: string): string {
  const name = `aide-${fileIntegrity}-${nodeName}`;
  return name.length < SHORT ? name : `aide-${sha1(name)}`;
}

/** The ConfigMap that keeps the log of the latest failed result. */
export function keptName(fileIntegrity: string, nodeName: string): string {
  return `${temporaryName(fileIntegrity, nodeName)}-failed`;
}

/** The FileIntegrityNodeStatus of a node: `<fi>-<node>`. */
export function nodeStatusName(fileIntegrity: string, nodeName: string): string {
  const name = `${fileIntegrity}-${nodeName}`;
  return name.length <= MAX_NAME ? name : `node-${sha1(name)}`;
}

/** The ConfigMap with the configuration that agents use, under the key `aide.conf`. */
export function activeConfigName(fileIntegrity: string): string {
  return fileIntegrity;
}

/**
 * The name of an object as a label value, which may have 63 characters: the name itself or, if that is too long, its
 * beginning and a digest.
 */
export function labelValue(name: string): string {
  if (name.length <= MAX_LABEL) return name;
  const digest = sha1(name);
  // Valid as a label: it begins and ends with a letter or digit, as the name does.
  return `${name.slice(0, MAX_LABEL - digest.length - 1)}-${digest}`;
}

/** SHA-1 only shortens names, as in FIO. */
const sha1 = (text: string): string => hash('sha1', text);
