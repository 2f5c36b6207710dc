//! The curve as a drawing: goodput and refusals over the offered load, and the latency below.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use plotters::coord::Shift;
use plotters::coord::ranged1d::Ranged;
use plotters::coord::types::RangedCoordf64;
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
type Chart<'a, 'b, Y> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, Y>>;

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

/// The loads stand at 0, 1, 2 and so on, whatever lies between them.
fn places(points: &[(f64, Point)]) -> std::ops::Range<f64> {
    -0.4..points.len().max(1) as f64 - 0.6
}

/// The words below a place.
fn label(points: &[(f64, Point)], place: f64) -> String {
    let is_one = (place - place.round()).abs() < 1e-6 && place > -0.5;
    let point = points.get(place.round() as usize).filter(|_| is_one);
    point.map_or_else(String::new, |(load, _)| format!("{load} x"))
}

/// A line through one figure of each point that has it.
fn line<F: Fn(&Point) -> Option<f64>>(points: &[(f64, Point)], figure: F) -> Vec<(f64, f64)> {
    let placed = (0_u32..).map(f64::from).zip(points);
    placed.filter_map(|(place, (_, point))| Some((place, figure(point)?))).collect()
}

/// Draws a line whose points stand out of it, and names it in the legend.
fn curve<Y: Ranged<ValueType = f64>>(
    chart: &mut Chart<'_, '_, Y>,
    line: Vec<(f64, f64)>,
    style: ShapeStyle,
    name: &str,
) -> Result<(), Trouble> {
    chart
        .draw_series(LineSeries::new(line, style).point_size(style.stroke_width + 1))?
        .label(name)
        .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], style));
    Ok(())
}

fn rates(area: &Area<'_>, measured: &Capacity, points: &[(f64, Point)]) -> Result<(), Trouble> {
    let goodput = line(points, |point| Some(100.0 * point.goodput_per_s / measured.per_s));
    let top = goodput.iter().map(|(_, percent)| *percent).fold(100.0, f64::max);
    let mut chart = ChartBuilder::on(area)
        .caption("Goodput of one key, by offered load", TITLE)
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(70)
        .build_cartesian_2d(places(points), 0.0..top * 1.35)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .max_light_lines(1)
        .label_style(FONT)
        .x_labels(points.len() * 4)
        .x_desc(format!("offered load, as a multiple of the capacity of {:.0}/s", measured.per_s))
        .y_desc("%")
        .x_label_formatter(&|place| label(points, *place))
        .y_label_formatter(&|percent| format!("{percent:.0}"))
        .draw()?;
    let ends = [places(points).start, places(points).end];
    chart
        .draw_series(LineSeries::new(ends.map(|place| (place, 100.0)), &CAPACITY))?
        .label("capacity")
        .legend(|(x, y)| PathElement::new([(x, y), (x + 20, y)], CAPACITY));
    let name = "done within the budget, of the capacity";
    curve(&mut chart, goodput, GOODPUT.stroke_width(3), name)?;
    let refused = line(points, |point| Some(point.percent(point.refused)));
    curve(&mut chart, refused, REFUSED.stroke_width(2), "refused, of the requests")?;
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
    let done = line(points, |point| Some(ms(point.done_p99)).filter(|_| point.goodput_per_s > 0.0));
    let refused = line(points, |point| Some(ms(point.refused_p50)).filter(|_| point.refused > 0));
    let top = done.iter().map(|(_, ms)| *ms).fold(10.0, f64::max);
    let mut chart = ChartBuilder::on(area)
        .caption("Latency from when a request was due", TITLE)
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(70)
        .build_cartesian_2d(places(points), (0.01..top * 2.0).log_scale())?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .max_light_lines(1)
        .label_style(FONT)
        .x_labels(points.len() * 4)
        .x_desc("offered load")
        .y_desc("ms")
        .x_label_formatter(&|place| label(points, *place))
        .y_label_formatter(&|ms| format!("{ms}"))
        .draw()?;
    curve(&mut chart, done, GOODPUT.stroke_width(3), "done, p99")?;
    curve(&mut chart, refused, REFUSED.stroke_width(2), "refused, p50")?;
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerRight)
        .label_font(FONT)
        .background_style(WHITE.mix(0.8))
        .draw()?;
    Ok(())
}
