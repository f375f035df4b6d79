import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";

/** Everything that the page is built from, relative to this folder. */
const ROOTS = ["index.html", "package-lock.json", "package.json", "sources.ts", "src", "tsconfig.json", "vite.config.ts"];

/** The digest of all sources: each file's path and content, in the order of paths, NUL after each. */
export function sourcesDigest(folder: string): string {
  const digest = createHash("sha256");
  const nul = Buffer.from([0]);
  for (const path of ROOTS.flatMap((root) => filesBelow(join(folder, root))).map((file) => relative(folder, file)).sort()) {
    digest.update(path).update(nul).update(readFileSync(join(folder, path))).update(nul);
  }
  return digest.digest("hex");
}

function filesBelow(path: string): string[] {
  try {
    return readdirSync(path).flatMap((name) => filesBelow(join(path, name)));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOTDIR") return [path];
    throw error;
  }
}
