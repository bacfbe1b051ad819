//! Debian's Prometheus, which reads metrics of a test's processes and evaluates queries.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};

use crate::client::plain;
use crate::error::{Error, Result};
use crate::process::{Process, Spec};
use crate::rundir::RunDir;
use crate::{deps, ports};

/// A running Prometheus. Ends with this value.
#[derive(Debug)]
pub struct Prometheus {
    process: Process,
    address: SocketAddr,
}

/// A page of metrics that Prometheus reads every second, with the labels that it adds.
#[derive(Debug)]
pub struct Scraped<'a> {
    /// The label `job`.
    pub job: &'a str,
    /// The label `pod`.
    pub pod: &'a str,
    /// The address of its server.
    pub address: SocketAddr,
    /// The path of the page.
    pub path: &'a str,
}

/// One value of a query's answer, with its labels.
pub type Sample = (BTreeMap<String, String>, f64);

impl Prometheus {
    /// Starts Prometheus over pages that have the label `namespace`.
    ///
    /// # Errors
    /// [`Error::Missing`], or the step that failed with the last log lines.
    pub fn start(run: &RunDir, namespace: &str, pages: &[Scraped<'_>]) -> Result<Self> {
        let binary = deps::prometheus()?;
        let dir = run.make_dir("prometheus")?;
        let jobs: Vec<Value> = pages.iter().map(|page| page.job(namespace)).collect();
        let config = json!({"global": {"scrape_interval": "1s", "scrape_timeout": "1s"}, "scrape_configs": jobs});
        // JSON is YAML.
        let file = run.write("prometheus/prometheus.yml", config.to_string())?;
        let address = ports::free_address()?;
        let spec = Spec::new("prometheus", binary, &dir)
            .flag("config.file", file)
            .flag("storage.tsdb.path", dir.join("data"))
            .flag("web.listen-address", address.to_string());
        let prometheus = Self { process: Process::start(spec)?, address };
        prometheus.process.wait_ready("readiness of Prometheus", Duration::from_secs(60), || {
            let answer = plain::get(address, "/-/ready").map_err(|error| error.to_string())?;
            if answer.status == 200 { Ok(()) } else { Err(answer.text()) }
        })?;
        Ok(prometheus)
    }

    /// The answer to an instant query that gives a vector.
    ///
    /// # Errors
    /// [`Error::Lacks`] with what Prometheus says about a query that it refuses.
    pub fn query(&self, expression: &str) -> Result<Vec<Sample>> {
        let encoded: String = expression.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let answer = plain::get(self.address, &format!("/api/v1/query?query={encoded}"))?.text();
        let parsed: Value = serde_json::from_str(&answer).unwrap_or_default();
        let lacks =
            || Error::Lacks { what: format!("the answer to {expression}: {answer}"), field: "result".to_owned() };
        let found = parsed.pointer("/data/result").and_then(Value::as_array).ok_or_else(lacks)?;
        Ok(found.iter().filter_map(sample).collect())
    }
}

impl Scraped<'_> {
    fn job(&self, namespace: &str) -> Value {
        json!({
            "job_name": self.job,
            "metrics_path": self.path,
            "static_configs": [
                {"targets": [self.address.to_string()], "labels": {"namespace": namespace, "pod": self.pod}},
            ],
        })
    }
}

fn sample(one: &Value) -> Option<Sample> {
    let labels = one.get("metric")?.as_object()?.iter();
    let labels = labels.map(|(name, value)| (name.clone(), value.as_str().unwrap_or_default().to_owned())).collect();
    let value = one.get("value")?.get(1)?.as_str()?.parse().ok()?;
    Some((labels, value))
}
