use std::collections::BTreeMap;

use crate::Gateway;

/// The labels of a series.
pub type Labels = BTreeMap<String, String>;

/// The series of a Prometheus page.
#[derive(Debug)]
pub struct MetricsPage(Vec<(String, Labels, u64)>);

impl MetricsPage {
    /// The filter's series on the page of the gateway's Envoy, without the prefix of their names.
    ///
    /// # Panics
    /// If Envoy does not answer.
    #[allow(clippy::expect_used, reason = "for tests")]
    pub fn of(gateway: &Gateway) -> Self {
        let text = gateway.envoy().admin().get("/stats/prometheus").expect("Envoy shows its metrics").text();
        MetricsPage::read(&text, "envoy_portcullis_")
    }

    /// The series of a page whose names begin with the prefix, without it.
    pub fn read(text: &str, prefix: &str) -> Self {
        MetricsPage(text.lines().filter_map(|line| parse(line.strip_prefix(prefix)?)).collect())
    }

    /// The sum of a metric's series that carry these labels. A label that is absent is empty.
    pub fn sum(&self, name: &str, wanted: &[(&str, &str)]) -> u64 {
        let carries =
            |labels: &Labels| wanted.iter().all(|(key, value)| labels.get(*key).map_or("", String::as_str) == *value);
        self.series_of(name).filter(|(labels, _)| carries(labels)).map(|(_, value)| value).sum()
    }

    /// All series, by name and labels.
    pub fn all(&self) -> impl Iterator<Item = (&str, &Labels, u64)> {
        self.0.iter().map(|(name, labels, value)| (name.as_str(), labels, *value))
    }

    /// The series of a metric.
    pub fn series_of(&self, name: &str) -> impl Iterator<Item = (&Labels, u64)> {
        self.0.iter().filter(move |(one, ..)| one == name).map(|(_, labels, value)| (labels, *value))
    }
}

fn parse(line: &str) -> Option<(String, Labels, u64)> {
    let (series, value) = line.rsplit_once(' ')?;
    let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
    let pairs = labels.strip_suffix('}')?.split(',').filter_map(|pair| pair.split_once('='));
    let labels = pairs.map(|(key, value)| (key.to_owned(), value.trim_matches('"').to_owned())).collect();
    Some((name.to_owned(), labels, value.parse::<f64>().ok()? as u64))
}
