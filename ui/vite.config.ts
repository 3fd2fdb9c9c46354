import { defineConfig } from 'vite';

export default defineConfig({
  base: './',
  build: {
    target: 'es2022',
    // Each asset is a file with a name that the server knows. None is inline: the server's Content-Security-Policy forbids that.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    rollupOptions: {
      output: { entryFileNames: 'page.js', assetFileNames: 'page[extname]', inlineDynamicImports: true },
    },
  },
});
