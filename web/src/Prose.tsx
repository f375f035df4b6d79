import type { Message } from "@langchain/langgraph-sdk";
import { memo } from "react";
import Markdown from "react-markdown";
import remarkGfm from "remark-gfm";

export type ToolResult = Extract<Message, { type: "tool" }>;

export const Prose = memo(function Prose({ text }: { text: string }) {
  return (
    <div className="prose">
      <Markdown remarkPlugins={[remarkGfm]} components={{ img: ({ alt }) => <>{alt}</>, a: OutsideLink }}>
        {text}
      </Markdown>
    </div>
  );
});

function OutsideLink({ href, children }: React.ComponentProps<"a">) {
  return (
    <a href={href} target="_blank" rel="noopener noreferrer">
      {children}
    </a>
  );
}

export function textOf(message: Message): string {
  const { content } = message;
  if (typeof content === "string") return content;
  return content.map((block) => (block.type === "text" ? block.text : "")).join("");
}
