import { useState } from 'preact/hooks';

/** A command line, and a button that copies it. It never runs from here. */
export function CopiedCommand({ command }: { readonly command: string }) {
  const [isCopied, setCopied] = useState(false);
  const copy = (): void => void navigator.clipboard.writeText(command).then(() => setCopied(true));
  return (
    <div class="command">
      <code tabIndex={0}>{command}</code>
      <button type="button" onClick={copy}>
        {isCopied ? 'Copied' : 'Copy'}
      </button>
    </div>
  );
}
