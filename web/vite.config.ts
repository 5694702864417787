import { readFileSync } from 'node:fs';
import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig, type Plugin } from 'vite';

// Their terms ask that they are handed on.
const licenses: [string, string][] = [
  ['svelte', 'LICENSE.md'],
  ['marked', 'LICENSE.md'],
  ['dompurify', 'LICENSE'],
  ['highlight.js', 'LICENSE'],
];
const withLicenses: Plugin = {
  name: 'licenses',
  apply: 'build',
  generateBundle() {
    const texts = licenses.map(([name, file]) => `${name}\n\n${readFileSync(`node_modules/${name}/${file}`, 'utf8').trim()}\n`);
    this.emitFile({ type: 'asset', name: 'licenses.txt', source: texts.join(`\n${'-'.repeat(72)}\n\n`) });
  },
};

// Names of files come from their contents alone, so that every build of one source is the same.
export default defineConfig({
  plugins: [svelte(), withLicenses],
  build: {
    target: 'es2022',
    outDir: process.env.HELIX_PAGE_OUT ?? 'dist',
    emptyOutDir: true,
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
  // npm run dev shows the page in front of a server that runs at this address.
  server: {
    proxy: Object.fromEntries(
      ['/v1', '/health', '/helix', '/version'].map((path) => [path, process.env.HELIX_URL ?? 'http://127.0.0.1:8080']),
    ),
  },
});
