//! The cost of many limits for a control plane that divides them: `scale [--gateways N]`, a table for docs/performance.md.
//!
//! Reports of all gateways are decoded, divided by the real limiter and answered, as often as gateways send them. Each row is a
//! process of its own, so that its memory is that of its limiter.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a measurement: all numbers are its own")]

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

use portcullis_filter_config::limits::PartUse;
use portcullis_filter_config::{FlowControlLimit, GlobalLimit, GlobalStrategy};
use portcullis_limits::Limiter;
use portcullis_report::limits::{ClusterUseMessage, PartsMessage, UseMessage, encode_use};
use prost::Message;

/// Limits of an object.
const SCHEMAS: usize = 10;
const ROUNDS: u64 = 10;
const MEMORY_PAGE: u64 = 4_096;

/// Limits, strategy, reports of a gateway in a second, and what each gateway wants of each limit.
const ROWS: [(usize, GlobalStrategy, u64, u32); 5] = [
    (1_000, GlobalStrategy::Allocate, 1, 2),
    (3_000, GlobalStrategy::Allocate, 1, 2),
    (10_000, GlobalStrategy::Allocate, 1, 2),
    (10_000, GlobalStrategy::Allocate, 1, 40),
    (1_000, GlobalStrategy::Count, 10, 2),
];

/// The figures of a row, per second of all gateways but for the memory.
struct Found {
    limits: usize,
    report_bytes: u64,
    answer_bytes: u64,
    /// Nanoseconds for a limit in a report: of the limiter, and with the messages.
    limiter: u64,
    all: u64,
    /// Milliseconds.
    second: u64,
    memory: u64,
}

type Limits = BTreeMap<String, BTreeMap<String, GlobalLimit>>;

fn limits(count: usize, strategy: GlobalStrategy) -> Limits {
    let limit = |number: usize| GlobalLimit {
        limit: match number % 2 {
            0 => FlowControlLimit::MaxRequestsInflight(500),
            _ => FlowControlLimit::TokenBucket { qps: 1_000, burst: 2_000 },
        },
        strategy,
    };
    let schemas = || (0..SCHEMAS).map(|number| (format!("schema-{number}"), limit(number))).collect();
    let cluster = |object| format!("portcullis/-/cluster-{object:05}.example.com@0123456789abcdef");
    (0..count / SCHEMAS).map(|object| (cluster(object), schemas())).collect()
}

/// A report of all limits.
fn report(limits: &Limits, number: u64, wanted: u32) -> Vec<u8> {
    let schemas = limits.iter().flat_map(|(cluster, schemas)| schemas.iter().map(move |one| (cluster, one)));
    let parts = schemas.map(|(cluster, (schema, limit))| {
        let is_rate = matches!(limit.limit, FlowControlLimit::TokenBucket { .. });
        let used = PartUse { is_rate, is_leased: true, held: 20, used: wanted.min(20), wanted };
        (cluster.as_str(), schema.as_str(), used)
    });
    encode_use(u64::MAX, number, parts)
}

/// Answers a report, and returns the answer with the nanoseconds of the limiter in it.
fn answer(limiter: &mut Limiter, node: &str, report: &[u8], now: Duration) -> (Vec<u8>, u64) {
    let message = UseMessage::decode(report).unwrap();
    let clusters: Vec<_> = message.clusters.iter().map(|one| ClusterUseMessage::decode(one.clone()).unwrap()).collect();
    let mut answers = Vec::new();
    let start = processor_time();
    let holder = limiter.holder(node, 1, message.number, now).unwrap();
    for cluster in &clusters {
        let of_schema = |(schema, used)| limiter.exchange(holder, &cluster.cluster, schema, used, now);
        answers.extend(cluster.uses().map(of_schema));
    }
    let spent = processor_time() - start;
    let mut parts = PartsMessage { number: message.number, next_milliseconds: 1_000, ..PartsMessage::default() };
    answers.iter().for_each(|answer| parts.push(answer.unwrap().part));
    (parts.encode_to_vec(), spent)
}

fn measured(gateways: u64, row: usize) -> Found {
    let (count, strategy, reports, wanted) = ROWS[row];
    let limits = limits(count, strategy);
    // Before the memory is looked at: what a report needs for a moment is no part of it.
    let first = report(&limits, 1, wanted);
    let before = resident();
    let mut limiter = Limiter::new();
    limiter.configure(&limits, Duration::ZERO);
    let (mut of_limiter, mut of_all, mut answer_bytes) = (0, 0, 0);
    for round in 1..=ROUNDS {
        let report = report(&limits, round, wanted);
        for gateway in 0..gateways {
            let now = Duration::from_secs(10) + Duration::from_millis(round * 1_000 / reports + gateway);
            let start = processor_time();
            let (answer, spent) = answer(&mut limiter, &format!("gateway-{gateway}"), &report, now);
            of_all += processor_time() - start;
            of_limiter += spent;
            answer_bytes = answer.len() as u64;
        }
    }
    let each = |spent: u64| spent / ROUNDS / gateways / count as u64;
    let in_second = gateways * reports;
    Found {
        limits: count,
        report_bytes: first.len() as u64 * in_second,
        answer_bytes: answer_bytes * in_second,
        limiter: each(of_limiter),
        all: each(of_all),
        second: of_all / ROUNDS * reports / 1_000_000,
        memory: resident().saturating_sub(before),
    }
}

/// Nanoseconds that this thread has run.
fn processor_time() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split(' ').next().unwrap().parse().unwrap()
}

/// Bytes of this process in memory.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * MEMORY_PAGE
}

impl Found {
    fn write(&self) -> String {
        let Found { limits, report_bytes, answer_bytes, limiter, all, second, memory } = self;
        format!("{limits} {report_bytes} {answer_bytes} {limiter} {all} {second} {memory}")
    }

    fn read(text: &str) -> Self {
        let numbers: Vec<u64> = text.split_whitespace().map(|number| number.parse().unwrap()).collect();
        let [limits, report_bytes, answer_bytes, limiter, all, second, memory] = numbers[..] else {
            unreachable!("a row has seven numbers")
        };
        Found { limits: limits as usize, report_bytes, answer_bytes, limiter, all, second, memory }
    }
}

fn print_table(gateways: u64, rows: &[Found]) {
    println!("{gateways} gateways\n");
    println!(
        "| limits | a limit in a report | of it the limiter | a second of all gateways | reports, answers | memory |"
    );
    println!("|---|---|---|---|---|---|");
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    for (found, (_, strategy, _, wanted)) in rows.iter().zip(ROWS) {
        println!(
            "| {} `{strategy:?}`, each wants {wanted} | {:.2} µs | {:.2} µs | {} ms | {:.1} MiB, {:.1} MiB | {:.1} MiB |",
            found.limits,
            found.all as f64 / 1_000.0,
            found.limiter as f64 / 1_000.0,
            found.second,
            mib(found.report_bytes),
            mib(found.answer_bytes),
            mib(found.memory),
        );
    }
    let (first, last) = (&rows[0], &rows[2]);
    let of_thousand = |number: fn(&Found) -> u64| {
        (number(last) - number(first)) as f64 * 1_000.0 / (last.limits - first.limits) as f64
    };
    println!(
        "\nslope, for 1,000 limits more: {:.0} ms a second, {:.2} MiB of reports and {:.2} MiB of answers a second, {:.1} MiB of memory",
        of_thousand(|found| found.second),
        of_thousand(|found| found.report_bytes) / f64::from(1 << 20),
        of_thousand(|found| found.answer_bytes) / f64::from(1 << 20),
        of_thousand(|found| found.memory) / f64::from(1 << 20),
    );
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let value = |name: &str| {
        let position = arguments.iter().position(|argument| argument == name)?;
        arguments.get(position + 1)?.parse::<u64>().ok()
    };
    let gateways = value("--gateways").unwrap_or(50);
    if let Some(row) = value("--row") {
        println!("{}", measured(gateways, row as usize).write());
        return;
    }
    let of_row = |row: usize| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        let output = command.args(["--gateways", &gateways.to_string(), "--row", &row.to_string()]).output().unwrap();
        Found::read(&String::from_utf8(output.stdout).unwrap())
    };
    let rows: Vec<Found> = (0..ROWS.len()).map(of_row).collect();
    print_table(gateways, &rows);
}
