import { useEffect, useState } from 'preact/hooks';

import type { NextCommand } from '../apps/ui/report.ts';
import { shown } from './text.ts';

interface CopiedCommandProps {
  readonly command: NextCommand;
  /** Name of the node that the command is for; empty if unknown. */
  readonly node: string;
}

/** A command line, and a button that copies it. It never runs from here. */
export function CopiedCommand({ command: { line, isOnNode }, node }: CopiedCommandProps) {
  return (
    <>
      {isOnNode && <p class="dim">{node === '' ? 'On the node:' : `On node ${shown(node)}:`}</p>}
      <div class="command">
        <code tabIndex={0}>{line}</code>
        <CopyButton text={line} what="command" />
      </div>
    </>
  );
}

export function CopyButton({ text, what }: { readonly text: string; readonly what: string }) {
  const [isCopied, setCopied] = useState(false);
  // The button may have been given another text.
  useEffect(() => setCopied(false), [text]);
  const copy = (): void => void navigator.clipboard.writeText(text).then(() => setCopied(true));
  return (
    <button type="button" onClick={copy} aria-label={`${isCopied ? 'Copied' : 'Copy'} ${what}`}>
      {isCopied ? 'Copied' : 'Copy'}
    </button>
  );
}
