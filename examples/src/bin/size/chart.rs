//! The curve as a drawing: goodput and refusals over the offered load, and the latency below.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use plotters::coord::Shift;
use plotters::prelude::*;

use crate::Trouble;
use crate::capacity::Capacity;
use crate::point::Point;

const SIZE: (u32, u32) = (900, 700);
const FONT: (&str, u32) = ("sans-serif", 14);
const TITLE: (&str, u32) = ("sans-serif", 18);

/// Colours that people with any eyesight can tell apart.
const GOODPUT: RGBColor = RGBColor(0, 114, 178);
const REFUSED: RGBColor = RGBColor(213, 94, 0);
const CAPACITY: RGBColor = RGBColor(120, 120, 120);

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// A file that will have the drawing.
#[derive(Debug)]
pub(crate) struct Drawing {
    path: PathBuf,
    file: File,
}

/// Makes the file, so that a path that cannot be written is known at once.
pub(crate) fn create(path: &Path) -> Result<Drawing, Trouble> {
    let file = File::create(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(Drawing { path: path.to_owned(), file })
}

impl Drawing {
    pub(crate) fn draw(
        mut self,
        measured: &Capacity,
        points: &[(f64, Point)],
    ) -> Result<(), Trouble> {
        let svg = drawn(measured, points)?;
        let written = self.file.write_all(svg.as_bytes());
        written.map_err(|error| format!("{}: {error}", self.path.display()).into())
    }
}

fn drawn(measured: &Capacity, points: &[(f64, Point)]) -> Result<String, Trouble> {
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        root.fill(&WHITE)?;
        let (upper, lower) = root.split_vertically(SIZE.1 * 3 / 5);
        rates(&upper, measured, points)?;
        latencies(&lower, points)?;
        root.present()?;
    }
    Ok(svg)
}

/// From a little below the least load to a little above the greatest.
fn loads(points: &[(f64, Point)]) -> std::ops::Range<f64> {
    let least = points.iter().map(|(load, _)| *load).fold(f64::INFINITY, f64::min);
    let greatest = points.iter().map(|(load, _)| *load).fold(0.0, f64::max);
    if points.is_empty() { 0.1..10.0 } else { least / 1.2..greatest * 1.2 }
}

fn rates(area: &Area<'_>, measured: &Capacity, points: &[(f64, Point)]) -> Result<(), Trouble> {
    let top = points.iter().map(|(_, point)| point.goodput_per_s).fold(measured.per_s, f64::max);
    let mut chart = ChartBuilder::on(area)
        .caption("Goodput of one key, by offered load", TITLE)
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(70)
        .build_cartesian_2d(loads(points).log_scale(), 0.0..top * 1.3)?;
    chart
        .configure_mesh()
        .label_style(FONT)
        .x_desc("offered load, as a multiple of the capacity")
        .y_desc("requests per second")
        .x_label_formatter(&|load| format!("{load:.2}"))
        .draw()?;
    let ends = [loads(points).start, loads(points).end];
    chart
        .draw_series(LineSeries::new(ends.map(|load| (load, measured.per_s)), &CAPACITY))?
        .label("capacity")
        .legend(|(x, y)| PathElement::new([(x, y), (x + 20, y)], CAPACITY));
    let goodput = points.iter().map(|(load, point)| (*load, point.goodput_per_s));
    chart
        .draw_series(LineSeries::new(goodput, GOODPUT.stroke_width(3)).point_size(4))?
        .label("done within the budget")
        .legend(|(x, y)| PathElement::new([(x, y), (x + 20, y)], GOODPUT.stroke_width(3)));
    let refused = points
        .iter()
        .map(|(load, point)| (*load, point.offered_per_s * point.percent(point.refused) / 100.0));
    // Most of an overload is refused: it leaves the drawing at the top.
    chart
        .draw_series(LineSeries::new(refused, REFUSED.stroke_width(2)).point_size(3))?
        .label("refused")
        .legend(|(x, y)| PathElement::new([(x, y), (x + 20, y)], REFUSED.stroke_width(2)));
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .label_font(FONT)
        .background_style(WHITE.mix(0.8))
        .draw()?;
    Ok(())
}

fn latencies(area: &Area<'_>, points: &[(f64, Point)]) -> Result<(), Trouble> {
    let ms = |time: std::time::Duration| (time.as_secs_f64() * 1e3).max(0.01);
    let done = || points.iter().filter(|(_, point)| !point.done_p99.is_zero());
    let top = done().map(|(_, point)| ms(point.done_p99)).fold(10.0, f64::max);
    let mut chart = ChartBuilder::on(area)
        .caption("Latency from when a request was due", TITLE)
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(70)
        .build_cartesian_2d(loads(points).log_scale(), (0.01..top * 2.0).log_scale())?;
    chart
        .configure_mesh()
        .label_style(FONT)
        .x_desc("offered load, as a multiple of the capacity")
        .y_desc("ms")
        .x_label_formatter(&|load| format!("{load:.2}"))
        .y_label_formatter(&|ms| format!("{ms}"))
        .draw()?;
    let p99 = done().map(|(load, point)| (*load, ms(point.done_p99)));
    chart
        .draw_series(LineSeries::new(p99, GOODPUT.stroke_width(3)).point_size(4))?
        .label("done, p99")
        .legend(|(x, y)| PathElement::new([(x, y), (x + 20, y)], GOODPUT.stroke_width(3)));
    let refused = points.iter().filter(|(_, point)| point.refused > 0);
    let refused = refused.map(|(load, point)| (*load, ms(point.refused_p50)));
    chart
        .draw_series(LineSeries::new(refused, REFUSED.stroke_width(2)).point_size(3))?
        .label("refused, p50")
        .legend(|(x, y)| PathElement::new([(x, y), (x + 20, y)], REFUSED.stroke_width(2)));
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerRight)
        .label_font(FONT)
        .background_style(WHITE.mix(0.8))
        .draw()?;
    Ok(())
}
