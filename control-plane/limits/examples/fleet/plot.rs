//! The day as a picture (SVG): demand and parts of the fleet and of some gateways.

use std::fmt::Write;

use crate::demand::Demand;
use crate::gateway::Gateway;
use crate::plan::Plan;
use crate::world::{SECOND, World};

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 150.0;
const LEFT: f64 = 60.0;
const GAP: f64 = 46.0;
const INK: &str = "#57606a";
const LIMIT: &str = "#cf222e";
const WANTED: &str = "#8c959f";
const USED: &str = "#0969da";
const LEASED: &str = "#bc4c00";

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

/// A panel of lines over the day.
struct Panel<'p> {
    title: String,
    top: f64,
    hours: f64,
    lines: Vec<(&'p str, Vec<(u64, f64)>)>,
}

/// The picture of all limits, with some gateways' parts of the first.
pub(crate) fn picture(world: &World, plans: &[Plan], hours: f64) -> String {
    let mut panels = Vec::new();
    for (limit, plan) in plans.iter().enumerate() {
        let points = &world.figures.limits[limit].points;
        let line = |of: fn(&Point) -> f64| points.iter().map(|point| (point.at, of(point))).collect::<Vec<_>>();
        let title = format!("{}: all gateways, in parts of the limit", plan.name);
        let mut lines = vec![
            (WANTED, line(|point| point.wanted)),
            (LEASED, line(|point| point.leased)),
            (USED, line(|point| point.used)),
            (LIMIT, line(|_| 1.0)),
        ];
        lines.retain(|(_, points)| points.iter().any(|(_, level)| *level > 0.0));
        panels.push(Panel { title, top: 1.5, hours, lines });
        for series in world.figures.watched.series.iter().filter(|series| series.limit == limit && limit == 0) {
            let wanted = series.points.iter().map(|(at, wanted, _)| (*at, *wanted)).collect();
            let part: Vec<_> = series.points.iter().map(|(at, _, part)| (*at, *part)).collect();
            if part.iter().any(|(_, part)| *part > 0.0) {
                let most = series.points.iter().fold(1.0, |most: f64, (_, wanted, part)| most.max(*wanted).max(*part));
                let title = format!("{}: {}, in even shares", plan.name, series.name);
                panels.push(Panel { title, top: most, hours, lines: vec![(WANTED, wanted), (LEASED, part)] });
            }
        }
    }
    let height = (HEIGHT + GAP) * panels.len() as f64 + GAP;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#ffffff\"/>\n"
    );
    for (at, (color, name)) in
        [(WANTED, "demand"), (LEASED, "parts"), (USED, "admitted, or in flight"), (LIMIT, "limit")].iter().enumerate()
    {
        let x = LEFT + 190.0 * at as f64;
        _ = writeln!(text, "<path d=\"M{x} 16h24\" stroke=\"{color}\" stroke-width=\"2\"/>");
        _ = writeln!(text, "<text x=\"{}\" y=\"20\" fill=\"{INK}\">{name}</text>", x + 30.0);
    }
    for (at, panel) in panels.iter().enumerate() {
        panel.draw(GAP + (HEIGHT + GAP) * at as f64, &mut text);
    }
    text + "</svg>\n"
}

impl Panel<'_> {
    fn draw(&self, y: f64, text: &mut String) {
        let right = WIDTH - 20.0;
        _ = writeln!(text, "<text x=\"{LEFT}\" y=\"{}\" fill=\"{INK}\">{}</text>", y - 6.0, self.title);
        for (part, level) in [(0.0, 0.0), (0.5, self.top / 2.0), (1.0, self.top)] {
            let at = y + HEIGHT - HEIGHT * part;
            _ = writeln!(text, "<path d=\"M{LEFT} {at}H{right}\" stroke=\"#d0d7de\"/>");
            let label = format!("<text x=\"{}\" y=\"{}\" fill=\"{INK}\" text-anchor=\"end\">", LEFT - 6.0, at + 4.0);
            _ = writeln!(text, "{label}{level:.2}</text>");
        }
        for step in 0..=6 {
            let x = LEFT + (right - LEFT) * f64::from(step) / 6.0;
            let hour = self.hours * f64::from(step) / 6.0;
            let label =
                format!("<text x=\"{x:.0}\" y=\"{}\" fill=\"{INK}\" text-anchor=\"middle\">", y + HEIGHT + 14.0);
            _ = writeln!(text, "{label}{hour:.0} h</text>");
        }
        for (color, points) in &self.lines {
            let mut path = String::new();
            for (at, level) in points {
                let hour = *at as f64 / SECOND as f64 / 3_600.0;
                let x = LEFT + (right - LEFT) * hour / self.hours;
                let height = y + HEIGHT - HEIGHT * (level / self.top).min(1.05);
                _ = write!(path, "{}{x:.1} {height:.1}", if path.is_empty() { "M" } else { "L" });
            }
            _ = writeln!(text, "<path d=\"{path}\" fill=\"none\" stroke=\"{color}\"/>");
        }
    }
}
