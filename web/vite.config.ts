import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";
import { sourcesDigest } from "./sources.ts";

const folder = import.meta.dirname;

export default defineConfig({
  base: "./",
  plugins: [
    react(),
    {
      name: "record-sources",
      generateBundle() {
        const source = `${JSON.stringify({ sources_sha256: sourcesDigest(folder) })}\n`;
        this.emitFile({ type: "asset", fileName: "build.json", source });
      },
    },
  ],
  build: {
    outDir: "../deerflow/gateway/web",
    emptyOutDir: true,
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    license: { fileName: "licenses.md" },
    chunkSizeWarningLimit: 1500,
  },
  server: { proxy: { "^/(threads|runs|assistants|auth|ok|info|health)": "http://127.0.0.1:8001" } },
});
