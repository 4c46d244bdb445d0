"""Which Caffe fork a field belongs to, so that an unknown field can be answered with its origin.

A field is listed under the message that the forks add it to; where several forks have a field of
one name, all that are widely used are named.
"""

from __future__ import annotations

__all__ = ["fork_of"]

_SSD = "SSD (weiliu89/caffe)"
_SEGNET = "SegNet (alexgkendall/caffe-segnet)"
_YJXIONG = "yjxiong/caffe"
_DEEPLAB = "DeepLab (xmyqsh/deeplab-v2)"
_PSPNET = "PSPNet (hszhao/PSPNet)"
_YOLO = "YOLO (eric612/MobileNet-YOLO)"
_NVIDIA = "NVCaffe (NVIDIA/caffe)"
_FACE = "happynear/caffe-windows"
_C3D = "C3D (facebook/C3D)"
_RCNN = "Fast R-CNN (rbgirshick/caffe-fast-rcnn)"
_MSCNN = "MS-CNN (zhaoweicai/mscnn)"
_SPHERE = "SphereFace (wy1iu/sphereface)"
_INTEL = "intel/caffe"
_SPARK = "CaffeOnSpark (yahoo/CaffeOnSpark)"
_VIDEO = "chuckcho/video-caffe"

_LAYER = {
    _SSD: "annotated_data_param multibox_loss_param permute_param prior_box_param norm_param "
    "detection_output_param detection_evaluate_param video_data_param",
    _RCNN: "roi_pooling_param smooth_l1_loss_param",
    f"R-FCN (microsoft) and {_INTEL}": "psroi_pooling_param box_annotator_ohem_param",
    _MSCNN: "box_group_output_param box_output_param decode_bbox_param proposal_target_param",
    _NVIDIA: "detectnet_groundtruth_param detectnet_augmentation_param forward_type "
    "backward_type forward_math backward_math",
    f"{_SEGNET}, {_YJXIONG} or {_PSPNET}": "bn_param",
    f"{_SEGNET} or {_YOLO}": "upsample_param",
    f"{_PSPNET} or {_DEEPLAB}": "interp_param",
    _SEGNET: "dense_image_data_param",
    _DEEPLAB: "seg_accuracy_param mat_write_param dense_crf_param softmaxloss_param",
    "DeconvNet": "unpooling_param",
    "CRF-RNN": "multi_stage_meanfield_param",
    "ShuffleNet (farmingyard/ShuffleNet)": "shuffle_channel_param",
    _YOLO: "reorg_param region_loss_param yolov3_param relu6_param "
    "yolov3_detection_output_param eval_detection_param",
    _FACE: "normalize_param channel_scale_param label_specific_add_param",
    _SPHERE: "margin_inner_product_param",
    "wy1iu/LargeMargin_Softmax_Loss": "largemargin_inner_product_param",
    "ydwen/caffe-face": "center_loss_param",
    "gehaocool/CombinedMargin-caffe": "combined_margin_param",
    "junhyukoh/caffe-lstm or feifeibear/SWCaffe": "lstm_param",
    "yalecyu/crnn.caffe": "continuation_indicator_param ctc_loss_param "
    "labelsequence_accuracy_param",
    _C3D: "convolution3d_param pooling3d_param",
    _SPARK: "source_class cos_data_param",
}
_OTHERS = {
    ("TransformationParameter", _SSD): "resize_param noise_param emit_constraint crop_h crop_w "
    "distort_param expand_param",
    ("TransformationParameter", _YJXIONG): "fix_crop multi_scale scale_ratios max_distort is_flow "
    "more_fix_crop stride original_image",
    ("TransformationParameter", _PSPNET): "scale_factors crop_width crop_height",
    ("ConvolutionParameter", _DEEPLAB): "hole",
    ("ConvolutionParameter", _VIDEO): "kernel_shape stride_shape pad_shape",
    ("ConvolutionParameter", _C3D): "kernel_depth temporal_pad temporal_stride filter_group",
    ("PoolingParameter", _VIDEO): "kernel_shape stride_shape pad_shape",
    ("PoolingParameter", _C3D): "kernel_depth temporal_stride",
    ("InnerProductParameter", _FACE): "normalize",
    ("ImageDataParameter", f"{_DEEPLAB} or {_PSPNET}"): "ignore_label label_type has_label "
    "max_labels",
    ("LossParameter", _SEGNET): "weight_by_label_freqs class_weighting",
    ("LossParameter", f"R-FCN (microsoft) and {_INTEL}"): "pre_fixed_normalizer",
    ("DropoutParameter", _SEGNET): "sample_weights_test",
    ("BatchNormParameter", f"{_NVIDIA} or {_INTEL}"): "engine",
    ("BatchNormParameter", _NVIDIA): "scale_filler bias_filler scale_bias",
    ("BatchNormParameter", _INTEL): "use_weight_bias bias_term filler stats_batch_size relu",
    ("SolverParameter", _SSD): "eval_type ap_version show_per_class_result plateau_winsize",
    ("SolverParameter", _NVIDIA): "store_blobs_in_old_format",
}

_FORKS: dict[tuple[str, str], str] = {
    (message, name): fork for (message, fork), names in _OTHERS.items() for name in names.split()
}
_FORKS.update(
    ((message, name), fork)
    for fork, names in _LAYER.items()
    for name in names.split()
    for message in ("LayerParameter", "V1LayerParameter")
)


def fork_of(message_type: str, field: str) -> str:
    """The fork or forks that add `field` to `message_type`; empty if none is known."""
    return _FORKS.get((message_type, field), "")
