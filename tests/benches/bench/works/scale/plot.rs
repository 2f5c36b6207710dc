//! Rate and wait against the load, as a drawing: a column for each axis, both scales logarithmic.

use plotters::prelude::*;

use super::{Axis, CONTENDERS};
use crate::measure::{RATE, WAIT_P99};
use crate::series::Series;

const SIZE: (u32, u32) = (1_200, 720);
const FONT: (&str, u32) = ("sans-serif", 13);
const TITLE: (&str, u32) = ("sans-serif", 16);

/// Colours that people with any eyesight can tell apart.
const COLOURS: [RGBColor; CONTENDERS.len()] =
    [RGBColor(0, 0, 0), RGBColor(213, 94, 0), RGBColor(0, 114, 178)];

/// The least that is drawn, so that nothing has no logarithm.
const LEAST: f64 = 1e-3;

/// The drawing, as SVG.
pub(super) fn drawn(series: &Series) -> Result<String, Box<dyn std::error::Error>> {
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        root.fill(&WHITE)?;
        let areas = root.split_evenly((2, Axis::ALL.len()));
        let figures = [(RATE, RATE), (WAIT_P99, "wait p99, ms")];
        let cells = figures.into_iter().flat_map(|figure| Axis::ALL.map(|axis| (figure, axis)));
        for (area, ((figure, name), axis)) in areas.iter().zip(cells) {
            let lines = CONTENDERS.map(|contender| {
                let value =
                    |point: usize| series.spread(&axis.row(contender, point), figure).median;
                let points = axis.points().iter().map(|point| (*point as f64, value(*point)));
                points.map(|(point, value)| (point, value.max(LEAST))).collect::<Vec<_>>()
            });
            let values = || lines.iter().flatten().map(|(_, value)| *value);
            let least = values().fold(f64::INFINITY, f64::min) / 1.5;
            let most = values().fold(LEAST, f64::max) * 1.5;
            let last = axis.points().last().map_or(1.0, |point| *point as f64);
            let mut chart = ChartBuilder::on(area)
                .caption(axis.title(), TITLE)
                .margin(12)
                .x_label_area_size(30)
                .y_label_area_size(70)
                .build_cartesian_2d((1.0..last).log_scale(), (least..most).log_scale())?;
            chart
                .configure_mesh()
                .max_light_lines(1)
                .label_style(FONT)
                .y_desc(name)
                .x_label_formatter(&|tasks| format!("{tasks:.0}"))
                .draw()?;
            for ((line, contender), colour) in lines.into_iter().zip(CONTENDERS).zip(COLOURS) {
                let style = colour.stroke_width(2);
                let dots = line.iter().map(|at| Circle::new(*at, 3, colour.filled()));
                chart.draw_series(dots)?;
                chart
                    .draw_series(LineSeries::new(line.clone(), style))?
                    .label(contender.name())
                    .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], style));
            }
            chart
                .configure_series_labels()
                .label_font(FONT)
                .background_style(WHITE.mix(0.8))
                .draw()?;
        }
        root.present()?;
    }
    Ok(svg)
}
