CREATE TABLE `artifacts` (
	`attempt_id` text NOT NULL,
	`name` text NOT NULL,
	`bytes` integer NOT NULL,
	`content` blob NOT NULL,
	PRIMARY KEY(`attempt_id`, `name`),
	FOREIGN KEY (`attempt_id`) REFERENCES `attempts`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE TABLE `attempts` (
	`id` text PRIMARY KEY NOT NULL,
	`job_id` text NOT NULL,
	`number` integer NOT NULL,
	`trajectory_id` text NOT NULL,
	`started_at` integer NOT NULL,
	`ended_at` integer,
	`stage` text NOT NULL,
	`end_reason` text,
	`backend_ids` text NOT NULL,
	`error` text,
	`messages` blob,
	`tools` blob,
	`model_info` text,
	`carry` blob,
	FOREIGN KEY (`job_id`) REFERENCES `jobs`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE INDEX `attempts_job` ON `attempts` (`job_id`,`number`);--> statement-breakpoint
CREATE TABLE `backends` (
	`id` text PRIMARY KEY NOT NULL,
	`url` text NOT NULL,
	`model` text NOT NULL,
	`role` text NOT NULL,
	`kind` text NOT NULL,
	`api_key` text,
	`weight` real NOT NULL,
	`policy_version` text NOT NULL,
	`tokenizer` text,
	`draining` integer NOT NULL,
	`profile` text,
	`created_at` integer NOT NULL
);
--> statement-breakpoint
CREATE TABLE `branches` (
	`attempt_id` text NOT NULL,
	`number` integer NOT NULL,
	`parent` integer,
	`shared_tokens` integer NOT NULL,
	`prompt_tokens` integer NOT NULL,
	`tokens` integer NOT NULL,
	`arrays` blob NOT NULL,
	`versions` text NOT NULL,
	`turns` text NOT NULL,
	PRIMARY KEY(`attempt_id`, `number`),
	FOREIGN KEY (`attempt_id`) REFERENCES `attempts`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE TABLE `consumers` (
	`name` text PRIMARY KEY NOT NULL,
	`committed` integer NOT NULL,
	`updated_at` integer NOT NULL
);
--> statement-breakpoint
CREATE TABLE `evaluations` (
	`id` text PRIMARY KEY NOT NULL,
	`job_id` text NOT NULL,
	`attempt_id` text NOT NULL,
	`number` integer NOT NULL,
	`started_at` integer NOT NULL,
	`ended_at` integer,
	`error` text,
	`reward` real,
	`rewards` text,
	`report` blob,
	`log` blob,
	`grading` text,
	FOREIGN KEY (`job_id`) REFERENCES `jobs`(`id`) ON UPDATE no action ON DELETE no action,
	FOREIGN KEY (`attempt_id`) REFERENCES `attempts`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE INDEX `evaluations_attempt` ON `evaluations` (`attempt_id`,`number`);--> statement-breakpoint
CREATE TABLE `events` (
	`seq` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`job_id` text NOT NULL,
	`kind` text NOT NULL,
	`data` text NOT NULL
);
--> statement-breakpoint
CREATE INDEX `events_job` ON `events` (`job_id`,`seq`);--> statement-breakpoint
CREATE TABLE `groups` (
	`id` text PRIMARY KEY NOT NULL,
	`task_id` text NOT NULL,
	`handler` text NOT NULL,
	`task` blob NOT NULL,
	`size` integer NOT NULL,
	`stream` text,
	`created_at` integer NOT NULL
);
--> statement-breakpoint
CREATE TABLE `job_counts` (
	`state` text PRIMARY KEY NOT NULL,
	`jobs` integer NOT NULL
);
--> statement-breakpoint
CREATE TABLE `jobs` (
	`id` text PRIMARY KEY NOT NULL,
	`group_id` text NOT NULL,
	`task_id` text NOT NULL,
	`handler` text NOT NULL,
	`sample` integer NOT NULL,
	`model` text NOT NULL,
	`stream` text,
	`priority` integer NOT NULL,
	`labels` text NOT NULL,
	`sampling` text NOT NULL,
	`limits` text NOT NULL,
	`state` text NOT NULL,
	`state_since` integer NOT NULL,
	`created_at` integer NOT NULL,
	`finished_at` integer,
	`not_before` integer,
	`cancel_requested` integer DEFAULT false NOT NULL,
	`attempt_id` text,
	`attempts_counted` integer DEFAULT 0 NOT NULL,
	`evaluations_counted` integer DEFAULT 0 NOT NULL,
	`end_reason` text,
	`error` text,
	`reward` real,
	`rewards` text,
	`trainable` integer DEFAULT false NOT NULL,
	`grading` text,
	`turns` integer DEFAULT 0 NOT NULL,
	`prompt_tokens` integer DEFAULT 0 NOT NULL,
	`sampled_tokens` integer DEFAULT 0 NOT NULL,
	`policy_version_min` text,
	`policy_version_max` text,
	`ledger` text,
	`queued_ms` real DEFAULT 0 NOT NULL,
	`init_ms` real DEFAULT 0 NOT NULL,
	`ready_ms` real DEFAULT 0 NOT NULL,
	`run_ms` real DEFAULT 0 NOT NULL,
	`llm_ms` real DEFAULT 0 NOT NULL,
	`tool_ms` real DEFAULT 0 NOT NULL,
	`awaiting_eval_ms` real DEFAULT 0 NOT NULL,
	`eval_ms` real DEFAULT 0 NOT NULL,
	`total_ms` real DEFAULT 0 NOT NULL,
	FOREIGN KEY (`group_id`) REFERENCES `groups`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE INDEX `jobs_claim` ON `jobs` (`model`,"priority" desc,`created_at`,`id`,`not_before`) WHERE "jobs"."state" = 'queued';--> statement-breakpoint
CREATE INDEX `jobs_claim_eval` ON `jobs` ("priority" desc,`created_at`,`id`) WHERE "jobs"."state" = 'awaiting_eval';--> statement-breakpoint
CREATE INDEX `jobs_retry` ON `jobs` (`not_before`) WHERE "jobs"."not_before" is not null;--> statement-breakpoint
CREATE INDEX `jobs_unfinished` ON `jobs` (`state`,`id`) WHERE "jobs"."state" <> 'finished';--> statement-breakpoint
CREATE INDEX `jobs_group` ON `jobs` (`group_id`,`sample`);--> statement-breakpoint
CREATE INDEX `jobs_stream` ON `jobs` (`stream`,`id`);--> statement-breakpoint
CREATE TABLE `meta` (
	`key` text PRIMARY KEY NOT NULL,
	`value` text NOT NULL
);
--> statement-breakpoint
CREATE TABLE `requests` (
	`key` text PRIMARY KEY NOT NULL,
	`body_hash` text NOT NULL,
	`groups` text NOT NULL,
	`created_at` integer NOT NULL
);
--> statement-breakpoint
CREATE TABLE `results` (
	`seq` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`job_id` text NOT NULL,
	`group_id` text NOT NULL,
	`stream` text,
	FOREIGN KEY (`job_id`) REFERENCES `jobs`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE UNIQUE INDEX `results_job_id_unique` ON `results` (`job_id`);--> statement-breakpoint
CREATE INDEX `results_stream` ON `results` (`stream`,`seq`);--> statement-breakpoint
CREATE INDEX `results_group` ON `results` (`group_id`,`seq`);--> statement-breakpoint
CREATE TABLE `turns` (
	`attempt_id` text NOT NULL,
	`number` integer NOT NULL,
	`branch` integer NOT NULL,
	`parent` integer,
	`context_start` integer NOT NULL,
	`drift` text NOT NULL,
	`prompt_tokens` integer NOT NULL,
	`sampled_tokens` integer NOT NULL,
	`arrays` blob NOT NULL,
	`versions` text NOT NULL,
	`sampling` text NOT NULL,
	`finish_reason` text NOT NULL,
	`stop_reason` text,
	`prompt_messages` blob NOT NULL,
	`message_index` integer NOT NULL,
	`message` blob NOT NULL,
	`parse` text NOT NULL,
	`backend_id` text NOT NULL,
	`request_id` text NOT NULL,
	`endpoint` text NOT NULL,
	`cached_tokens` integer,
	`queue_ms` real NOT NULL,
	`first_token_ms` real,
	`generation_ms` real NOT NULL,
	`hash` text NOT NULL,
	`tool_results` blob,
	PRIMARY KEY(`attempt_id`, `number`),
	FOREIGN KEY (`attempt_id`) REFERENCES `attempts`(`id`) ON UPDATE no action ON DELETE no action
);
