//! The day as a picture (SVG): demand and parts of the fleet and of some gateways.

use portcullis_plot::{Color, Line, Lines, Panel};

use crate::demand::Demand;
use crate::gateway::Gateway;
use crate::plan::Plan;
use crate::world::{SECOND, World};

const LIMIT: Color = Color::Red;
const WANTED: Color = Color::Gray;
const USED: Color = Color::Blue;
const LEASED: Color = Color::Orange;

/// The whole fleet at one time, in parts of the limit.
pub(crate) struct Point {
    pub(crate) at: u64,
    pub(crate) wanted: f64,
    pub(crate) used: f64,
    pub(crate) leased: f64,
}

/// Gateways that are drawn: one of each region, and the one that is hot.
pub(crate) struct Watched {
    gateways: Vec<usize>,
    /// By limit and gateway: time, demand and part in even shares.
    series: Vec<Series>,
}

struct Series {
    limit: usize,
    name: String,
    points: Vec<(u64, f64, f64)>,
}

impl Watched {
    pub(crate) fn new(demand: &Demand) -> Self {
        let gateways = [0.31, 0.71, 0.93].map(|place| (place * demand.gateways as f64) as usize);
        Watched { gateways: gateways.to_vec(), series: Vec::new() }
    }

    pub(crate) fn note(&mut self, limit: usize, now: u64, plan: &Plan, demand: &Demand, gateways: &[Gateway]) {
        let even = f64::from(plan.total()) / gateways.len() as f64;
        let of = |number: usize| {
            let part = if gateways[number].is_down { None } else { gateways[number].quota(limit, now) };
            (now, demand.at(number, now), f64::from(part.unwrap_or_default()) / even)
        };
        for number in self.gateways.clone() {
            let name = format!("gateway {number}, region {}", 1 + demand.region(number));
            self.add(limit, &name, of(number));
        }
        self.add(limit, "the hot gateway", demand.hot(now).map_or((now, 0.0, 0.0), of));
    }

    fn add(&mut self, limit: usize, name: &str, point: (u64, f64, f64)) {
        match self.series.iter_mut().find(|series| series.limit == limit && series.name == name) {
            Some(series) => series.points.push(point),
            None => self.series.push(Series { limit, name: name.to_owned(), points: vec![point] }),
        }
    }
}

/// The picture of all limits, with some gateways' parts of the first.
pub(crate) fn picture(world: &World, plans: &[Plan], hours: f64) -> String {
    let mut panels = Vec::new();
    for (limit, plan) in plans.iter().enumerate() {
        let points = &world.figures.limits[limit].points;
        let line = |of: fn(&Point) -> f64| points.iter().map(|point| (hour(point.at), of(point))).collect::<Vec<_>>();
        let title = format!("{}: all gateways, in parts of the limit", plan.name);
        let mut lines = vec![
            Line { color: WANTED, points: line(|point| point.wanted) },
            Line { color: LEASED, points: line(|point| point.leased) },
            Line { color: USED, points: line(|point| point.used) },
            Line { color: LIMIT, points: line(|_| 1.0) },
        ];
        lines.retain(|line| line.points.iter().any(|(_, level)| *level > 0.0));
        panels.push(Panel { title, top: 1.5, lines });
        for series in world.figures.watched.series.iter().filter(|series| series.limit == limit && limit == 0) {
            let wanted = series.points.iter().map(|(at, wanted, _)| (hour(*at), *wanted)).collect();
            let part: Vec<_> = series.points.iter().map(|(at, _, part)| (hour(*at), *part)).collect();
            if part.iter().any(|(_, part)| *part > 0.0) {
                let top = series.points.iter().fold(1.0, |most: f64, (_, wanted, part)| most.max(*wanted).max(*part));
                let title = format!("{}: {}, in even shares", plan.name, series.name);
                let lines = vec![Line { color: WANTED, points: wanted }, Line { color: LEASED, points: part }];
                panels.push(Panel { title, top, lines });
            }
        }
    }
    let names = [(WANTED, "demand"), (LEASED, "parts"), (USED, "admitted, or in flight"), (LIMIT, "limit")];
    let legend = names.map(|(color, name)| (color, name.to_owned())).to_vec();
    Lines { legend, span: hours, unit: "h", marks: Vec::new(), panels }.picture()
}

fn hour(at: u64) -> f64 {
    at as f64 / SECOND as f64 / 3_600.0
}
