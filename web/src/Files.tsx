import { type ChangeEvent, useEffect, useState } from "react";
import { errorText, filePath, fileUrl, request } from "./server";

interface Listed {
  files: { path: string; size_bytes: number }[];
  is_complete: boolean;
  max_bytes: number;
}

interface Props {
  threadId: string;
  changes: number;
  onClose: () => void;
}

export function Files({ threadId, changes, onClose }: Props) {
  const [listed, setListed] = useState<Listed | null>(null);
  const [error, setError] = useState("");
  const [progress, setProgress] = useState("");
  const [own, setOwn] = useState(0);

  useEffect(() => {
    let isCurrent = true;
    request("GET", `/threads/${threadId}/files`)
      .then((response) => response.json())
      .then(
        (found) => isCurrent && setListed(found),
        (problem) => isCurrent && setError(errorText(problem)),
      );
    return () => {
      isCurrent = false;
    };
  }, [threadId, changes, own]);

  const attempt = async (work: () => Promise<unknown>) => {
    setError("");
    try {
      await work();
    } catch (problem) {
      setError(errorText(problem));
    }
    setOwn((count) => count + 1);
  };
  const upload = async (event: ChangeEvent<HTMLInputElement>) => {
    const input = event.target;
    const chosen = Array.from(input.files ?? []);
    await attempt(async () => {
      for (const file of chosen) {
        if (listed && file.size > listed.max_bytes) {
          throw new Error(`${file.name} is larger than ${sizeText(listed.max_bytes)}`);
        }
        setProgress(`Uploading ${file.name}…`);
        const type = { "Content-Type": "application/octet-stream" };
        await request("POST", filePath(threadId, file.name), file, type);
      }
      setProgress(chosen.length === 1 ? `${chosen[0]?.name} is uploaded.` : `${chosen.length} files are uploaded.`);
    });
    input.value = "";
  };
  const remove = (path: string) => {
    if (!confirm(`Delete ${path}?`)) return;
    void attempt(() => request("DELETE", filePath(threadId, path)));
  };

  return (
    <section id="files" aria-label="Files">
      <div className="files-head">
        <h2>Files</h2>
        <button type="button" className="quiet" onClick={onClose}>
          Close
        </button>
      </div>
      <label className="upload">
        Upload files
        <input type="file" multiple onChange={upload} />
      </label>
      <p role="status" className="progress">
        {progress}
      </p>
      <p role="alert" className="error" hidden={!error}>
        {error}
      </p>
      <ul>
        {listed?.files.map(({ path, size_bytes }) => (
          <li key={path}>
            <a href={fileUrl(threadId, path)} download={path.split("/").pop()}>
              {path}
            </a>
            <span className="size">{sizeText(size_bytes)}</span>
            <button type="button" className="quiet" aria-label={`Delete ${path}`} onClick={() => remove(path)}>
              ×
            </button>
          </li>
        ))}
      </ul>
      {listed?.files.length === 0 && <p className="empty">No files yet.</p>}
      {listed && !listed.is_complete && <p>There are more files than are listed.</p>}
    </section>
  );
}

function sizeText(bytes: number): string {
  const units = ["B", "KB", "MB", "GB"];
  let size = bytes;
  let unit = 0;
  while (size >= 1000 && unit < units.length - 1) {
    size /= 1000;
    unit += 1;
  }
  return `${unit === 0 || size >= 100 ? Math.round(size) : size.toFixed(1)} ${units[unit]}`;
}
