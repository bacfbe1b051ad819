use super::html::Html;

/// The picture's size in its own units; the stylesheet scales it.
const WIDTH: f64 = 240.0;
const HEIGHT: f64 = 40.0;
/// The room above the highest point, so that the line is not cut.
const MARGIN: f64 = 2.0;

/// A line of values over the last hour, oldest first; gaps where there is none. `summary` is the picture in words.
pub(super) fn sparkline(html: &mut Html, values: &[Option<f64>], summary: &str) {
    let most = values.iter().flatten().copied().filter(|value| value.is_finite()).fold(0.0_f64, f64::max);
    html.raw("<svg class=\"spark\" viewBox=\"0 0 240 40\" preserveAspectRatio=\"none\" role=\"img\"");
    html.attribute("aria-label", summary).raw(">");
    for run in runs(values) {
        let points: Vec<String> = run.iter().map(|(index, value)| point(*index, *value, values.len(), most)).collect();
        html.raw("<polyline").attribute("points", &points.join(" ")).raw("/>");
    }
    html.raw("</svg>");
}

/// Neighbouring values, with their places.
fn runs(values: &[Option<f64>]) -> Vec<Vec<(usize, f64)>> {
    let mut runs: Vec<Vec<(usize, f64)>> = vec![Vec::new()];
    for (index, value) in values.iter().enumerate() {
        match value.filter(|value| value.is_finite()) {
            Some(value) => runs.last_mut().into_iter().for_each(|run| run.push((index, value))),
            None => runs.push(Vec::new()),
        }
    }
    runs.retain(|run| !run.is_empty());
    // One point alone is no line.
    for run in &mut runs {
        if let [(index, value)] = run.as_slice() {
            let twin = (*index + 1, *value);
            run.push(twin);
        }
    }
    runs
}

fn point(index: usize, value: f64, count: usize, most: f64) -> String {
    let steps = count.saturating_sub(1).max(1) as f64;
    let x = (index as f64 / steps * WIDTH).min(WIDTH);
    let part = if most > 0.0 { (value / most).clamp(0.0, 1.0) } else { 0.0 };
    let y = HEIGHT - MARGIN - part * (HEIGHT - 2.0 * MARGIN);
    format!("{x:.1},{y:.1}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(values: &[Option<f64>]) -> String {
        let mut html = Html::default();
        sparkline(&mut html, values, "an hour of \"requests\"");
        html.finish()
    }

    #[test]
    fn line_spans_the_picture_from_lowest_to_highest() {
        let drawn = drawn(&[Some(0.0), Some(5.0), Some(10.0)]);
        assert!(drawn.contains("points=\"0.0,38.0 120.0,20.0 240.0,2.0\""), "{drawn}");
        assert!(drawn.contains("aria-label=\"an hour of &quot;requests&quot;\""), "{drawn}");
    }

    #[test]
    fn gaps_and_odd_numbers_break_the_line() {
        let drawn = drawn(&[Some(1.0), None, Some(f64::NAN), Some(f64::INFINITY), Some(1.0), Some(0.5)]);
        assert_eq!(drawn.matches("<polyline").count(), 2, "{drawn}");
        assert!(!drawn.contains("NaN") && !drawn.contains("inf"), "{drawn}");
        assert_eq!(self::drawn(&[]).matches("<polyline").count(), 0);
        assert!(self::drawn(&[Some(0.0)]).contains("points=\"0.0,38.0 240.0,38.0\""));
    }
}
